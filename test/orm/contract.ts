// The contract of the adapters: the same cases for each ORM. An area of them is a row of the table in the docs.
import { absentFieldCases } from './contract/absent-fields.js'
import type { Case } from './contract/cases.js'
import { insertAndReadCases } from './contract/inserts-and-reads.js'
import { keyByRowCases } from './contract/keys-by-row.js'
import { madeIdCases } from './contract/made-ids.js'
import { refusalCases } from './contract/refusals.js'
import { relationCases } from './contract/relations.js'
import { searchCases } from './contract/searches.js'
import { updateCases } from './contract/updates.js'
import { upsertCases } from './contract/upserts.js'
import { wholeRowCases } from './contract/whole-rows.js'

export const CASES: readonly Case[] = [
  ...insertAndReadCases,
  ...absentFieldCases,
  ...updateCases,
  ...keyByRowCases,
  ...upsertCases,
  ...madeIdCases,
  ...searchCases,
  ...relationCases,
  ...refusalCases,
  ...wholeRowCases,
]
