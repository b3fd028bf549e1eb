// Which lines of a log are new: after a disconnect the server begins a little before the newest line that was received.

/** A line as it is sent: rank, pod, container, stream, text, instance of the container, and a number that grows within one log but for lines written side by side. @typedef {any[]} Sent */

export function received() {
  /** The newest number of each log, how many of its lines have it, how many of those will come again, and whether those before it may be known. @type {Map<string, {at: number, same: number, skip: number, behind: boolean}>} */
  const marks = new Map();
  return {
    clear: () => marks.clear(),
    /** The connection is back: the newest lines come once more. */
    resume() {
      for (const mark of marks.values()) { mark.skip = mark.same; mark.behind = true; }
    },
    /** @param {Sent} line */
    isNew([, pod, container, stream, , instance, at]) {
      if (at === null || at === undefined) return true;
      const log = `${pod}\n${container}\n${stream}\n${instance}`;
      const mark = marks.get(log);
      if (!mark || at > mark.at) marks.set(log, { at, same: 1, skip: 0, behind: false });
      else if (at < mark.at) return !mark.behind;
      else if (mark.skip > 0) { mark.skip -= 1; return false; } else mark.same += 1;
      return true;
    },
  };
}
