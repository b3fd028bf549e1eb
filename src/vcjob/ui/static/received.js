// Which lines of a log are new: after a disconnect the server begins a little before the newest line that was received.

/** A line as it is sent: rank, pod, container, stream, text, instance of the container, and a number that never falls within one log. @typedef {any[]} Sent */

export function received() {
  /** The newest number of each log, how many of its lines have it, and how many of those will come again. @type {Map<string, {at: number, same: number, skip: number}>} */
  const marks = new Map();
  return {
    clear: () => marks.clear(),
    /** The connection is back: the newest lines come once more. */
    resume() {
      for (const mark of marks.values()) mark.skip = mark.same;
    },
    /** @param {Sent} line */
    isNew([, pod, container, stream, , instance, at]) {
      if (at === null || at === undefined) return true;
      const log = `${pod}\n${container}\n${stream}\n${instance}`;
      const mark = marks.get(log);
      if (!mark || at > mark.at) marks.set(log, { at, same: 1, skip: 0 });
      else if (at < mark.at) return false;
      else if (mark.skip > 0) { mark.skip -= 1; return false; } else mark.same += 1;
      return true;
    },
  };
}
