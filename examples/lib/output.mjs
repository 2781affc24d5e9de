// What an example prints: steps, sentences, tables. On a terminal the step under way is shown in place.
import { styleText } from 'node:util'

const REDRAW_MS = 100
/** Where nothing can be shown in place, such as in a log, a long step says this often that it is still running. */
const STILL_MS = 10_000

/** @param {NodeJS.WriteStream} stream */
export function createOutput(stream) {
  const inPlace = stream.isTTY === true
  const isColoured = inPlace && !process.env.NO_COLOR
  /** @param {string} text */
  const line = (text = '') => stream.write(`${text}\n`)
  const style = (/** @type {'bold' | 'green' | 'dim'} */ look, /** @type {string} */ text) =>
    isColoured ? styleText(look, text) : text

  return {
    /** @param {string} text */
    title: (text) => line(`\n${style('bold', text)}\n`),
    /** A sentence below a step. @param {string} text */
    tell: (text) => line(text.replaceAll(/^(?=.)/gm, '    ')),
    /**
     * Runs one step, and shows how long it took.
     *
     * @template T
     * @param {string} name
     * @param {(report: (progress: { done: number, total: number }) => void) => Promise<T>} work
     * @returns {Promise<T>}
     */
    async step(name, work) {
      const since = performance.now()
      let state = ''
      const show = () => {
        const text = `  ${name} … ${state}${seconds(since)}`
        if (inPlace) stream.write(`\r\x1b[K${text.slice(0, stream.columns - 1)}`)
        else line(text)
      }
      const timer = setInterval(show, inPlace ? REDRAW_MS : STILL_MS)
      try {
        const result = await work(({ done, total }) => {
          state = `${count(done)} of ${count(total)}, `
        })
        line(`${inPlace ? '\r\x1b[K' : ''}${style('green', '✓')} ${name} ${style('dim', `(${seconds(since)})`)}`)
        return result
      } catch (error) {
        line(`${inPlace ? '\r\x1b[K' : ''}✗ ${name}`)
        throw error
      } finally {
        clearInterval(timer)
      }
    },
    /**
     * Aligns columns with numbers to the right. The first row is a heading if `heading` is set.
     *
     * @param {(string | number)[][]} rows
     * @param {{ heading?: boolean }} [options]
     */
    table(rows, { heading = false } = {}) {
      const cells = rows.map((row) => row.map((cell) => (typeof cell === 'number' ? count(cell) : cell)))
      const widths = (cells[0] ?? []).map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)))
      const isNumeric = widths.map((_, column) => rows.some((row) => typeof row[column] === 'number'))
      for (const [at, row] of cells.entries()) {
        const padded = row.map((cell, column) => {
          const width = widths[column] ?? 0
          return isNumeric[column] ? cell.padStart(width) : cell.padEnd(width)
        })
        const text = `    ${padded.join('   ')}`.trimEnd()
        line(heading && at === 0 ? style('dim', text) : text)
      }
      line()
    },
  }
}

/** A number for people: 1,200. @param {number} number */
export function count(number) {
  return number.toLocaleString('en-US')
}

/**
 * Makes text of a file safe to show on a terminal: without what would move the cursor or change the writing direction.
 *
 * @param {string} text
 * @param {number} [length] characters at most
 */
export function printable(text, length = 60) {
  const visible = [...text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '·')]
  return visible.length > length ? `${visible.slice(0, length - 1).join('')}…` : visible.join('')
}

/** @param {number} since */
function seconds(since) {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`
}
