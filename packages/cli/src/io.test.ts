import { InvalidInputError } from '@eaas/sdk'
import { describe, expect, it } from 'vitest'
import { readAfter } from './backfill/table.js'
import { inCommandWords } from './io.js'

function thrownBy(run: () => unknown): InvalidInputError {
  try {
    run()
  } catch (error) {
    if (error instanceof InvalidInputError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('an error of the SDK', () => {
  it('names the option of the command, and what to do about it there', () => {
    const table = { scope: 'this table' } as Parameters<typeof readAfter>[0]
    const foreign = JSON.stringify({ scope: 'that table', key: '7' })
    expect(inCommandWords(thrownBy(() => readAfter(table, foreign)))).toEqual({
      message: 'the key in the file of --state belongs to that table, and this is this table',
      hint: 'Remove the file to begin at the first row: rows that are done cost reading only.',
    })
    const about = { option: 'rowsPerSecond' }
    expect(inCommandWords(new InvalidInputError('rowsPerSecond must be a whole number', 'Correct it.', about))).toEqual(
      {
        message: '--rows-per-second must be a whole number',
        hint: 'Correct it.',
      },
    )
  })

  it('keeps a message that does not begin with the option, and one of no option', () => {
    const noColumn = new InvalidInputError('the table has no column "x"', 'Name it in `columns`.', {
      option: 'columns',
    })
    expect(inCommandWords(noColumn)).toEqual({
      message: 'the table has no column "x"',
      hint: 'Name it by --column <name=column>.',
    })
    const other = new InvalidInputError('after all, no option', 'None.')
    expect(inCommandWords(other)).toEqual({ message: 'after all, no option', hint: 'None.' })
  })
})
