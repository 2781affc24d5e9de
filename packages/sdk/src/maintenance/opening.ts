/**
 * Looks at rows and changes none: in which form their values are, and with `open` whether they open and their
 * indexes fit.
 */
import { isOldVersion, isUnsealed, lacksIndex, type TableCounts } from './forms.js'
import { type FoundRow, type Outcome, type Work, writeIndexes } from './works.js'

const CURRENT: Outcome = { status: 'current' }

/** Counts nothing more than the forms that every run counts. */
export const lookOnly: Work = async (_, found) => found.map(() => CURRENT)

/**
 * Opens the rows that are sealed, and adds to the counts those that do not open and indexes that do not fit.
 */
export function createOpening(counts: TableCounts): Work {
  return async (shop, found) => {
    const isOpenable = ({ forms }: FoundRow) =>
      !isUnsealed(shop.definition, forms) || [...forms.fields.values()].some(({ form }) => form === 'unreadable')
    const openable = found.filter(isOpenable)
    const outcomes = new Map<FoundRow, Outcome>()
    for (const [at, outcome] of (await writeIndexes(shop, openable)).entries()) {
      const one = openable[at]
      if (!one || outcome.status === 'current') continue
      const { forms } = one
      if (!isUnsealed(shop.definition, forms) && !lacksIndex(forms) && !isOldVersion(forms)) counts.left++
      if (outcome.status === 'failed') outcomes.set(one, outcome)
      else {
        for (const column of Object.keys(outcome.to)) {
          const index = counts.indexes[column]
          if (index && forms.indexes.get(column) === 'present') index.wrong++
        }
      }
    }
    return found.map((one) => outcomes.get(one) ?? CURRENT)
  }
}
