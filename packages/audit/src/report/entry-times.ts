/** The types of `verify/entry-times.ts` for `evidence.ts`. */
export type { Dated, EntryTimes } from '../verify/entry-times.js'
