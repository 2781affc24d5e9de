/** The commands of `eaas-audit`, in the order of its help. */
import { addEntries } from './entries.js'
import { addFollow } from './follow.js'
import { addProve, addVerifyProof } from './prove.js'
import { addReport } from './report.js'
import { addRights } from './rights.js'
import { addVerify } from './verify.js'
import { addVerifyArchive } from './verify-archive.js'
import { addWitness } from './witness.js'

export const COMMANDS = [
  addVerify,
  addVerifyArchive,
  addReport,
  addEntries,
  addFollow,
  addProve,
  addVerifyProof,
  addRights,
  addWitness,
]
