// The newest lines of a log, bounded by their number and their length, and which of them a filter lets through.

/** @typedef {import("./matching.js").Line} Line */
/** @typedef {import("./matching.js").Match} Match */

const MOST = 50_000;
const MOST_CHARACTERS = 16_000_000;
/** What is filtered at once: the page answers between two slices. */
const SLICE = 2000;
const SLICE_CHARACTERS = 500_000;

/**
 * Lines have numbers that stay when older ones are dropped. `changed` is called when a filter has found more, `failed`
 * when it could not be used.
 * @param {() => void} changed
 * @param {(problem: string) => void} failed
 */
export function lineBuffer(changed, failed) {
  /** @type {Line[]} */
  let lines = [];
  let characters = 0;
  /** The number of the oldest line that is kept. */
  let oldest = 0;
  /** @type {Match | null} */
  let match = null;
  /** The numbers of the lines that match. @type {number[]} */
  let hits = [];
  /** The number of the first line that the filter has not seen. */
  let next = 0;
  /** Counts what a scan that is under way must not outlive: another filter, other lines. */
  let turn = 0;
  let scanning = false;

  function restart() {
    turn += 1;
    hits = [];
    next = oldest;
  }

  async function scan() {
    if (scanning) return;
    scanning = true;
    while (match && next < oldest + lines.length) {
      const now = turn;
      next = Math.max(next, oldest);
      const first = next;
      const slice = sliceAt(first - oldest);
      /** @type {number[] | Error} */
      const found = await match(slice).catch((problem) => problem);
      if (now !== turn) continue;
      if (found instanceof Error) { match = async () => []; failed(found.message); continue; }
      for (const place of found) if (first + place >= oldest) hits.push(first + place);
      next = first + slice.length;
      changed();
      if (next < oldest + lines.length) await new Promise((resolve) => setTimeout(resolve));
    }
    scanning = false;
  }

  /** @param {number} start */
  function sliceAt(start) {
    let end = start;
    for (let size = 0; end < lines.length && end < start + SLICE && size < SLICE_CHARACTERS; end++) size += lines[end].text.length;
    return lines.slice(start, end);
  }

  /** Drops a tenth more than it has to, so that it is rarely done; returns how many rows that were shown are gone. */
  function drop() {
    if (lines.length <= MOST && characters <= MOST_CHARACTERS) return 0;
    let surplus = 0;
    while (lines.length - surplus > 0.9 * MOST || (characters > 0.9 * MOST_CHARACTERS && surplus < lines.length)) characters -= lines[surplus++].text.length;
    lines = lines.slice(surplus);
    oldest += surplus;
    if (!match) return surplus;
    const kept = hits.findIndex((number) => number >= oldest);
    return hits.splice(0, kept < 0 ? hits.length : kept).length;
  }

  return {
    /** How many rows there are. */
    count: () => (match ? hits.length : lines.length),
    /** @param {number} place @returns {Line} */
    row: (place) => lines[match ? hits[place] - oldest : place],
    dropped: () => oldest,
    filtered: () => match !== null,
    /** @param {(line: Line) => boolean} test the number of the first row without a filter, or -1 */
    find: (test) => lines.findIndex(test),
    /** Returns how many rows are gone. @param {Line[]} news */
    add(news) {
      for (const line of news) { lines.push(line); characters += line.text.length; }
      const gone = drop();
      scan();
      return gone;
    },
    clear() {
      lines = [];
      characters = oldest = 0;
      restart();
    },
    /** @param {Match | null} wanted null lets every line through */
    filter(wanted) {
      match = wanted;
      restart();
      scan();
    },
  };
}
