// A worker: which lines match the user's regular expression. One that takes too long is ended from outside.

addEventListener("message", (/** @type {MessageEvent<{pattern: string, lines: string[]}>} */ event) => {
  const pattern = new RegExp(event.data.pattern, "i");
  postMessage(event.data.lines.flatMap((line, place) => (pattern.test(line) ? [place] : [])));
});
postMessage("ready");
