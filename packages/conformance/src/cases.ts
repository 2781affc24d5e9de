/** All cases, in the order in which they run. */
import { ANSWER_CASES, CLOSED_CASES, PERMISSION_CASES, STATE_CASES } from './cases/answers.js'
import { API_KEY_CASES } from './cases/api-keys.js'
import { AUDIT_CASES } from './cases/audit.js'
import type { Case } from './cases/case.js'
import { EVERY_CALL_CASES } from './cases/every-call.js'
import { KEY_CASES } from './cases/keys.js'
import { VALUE_CASES } from './cases/values.js'

export const CASES: readonly Case[] = [
  ...EVERY_CALL_CASES,
  ...ANSWER_CASES,
  ...PERMISSION_CASES,
  ...KEY_CASES,
  ...STATE_CASES,
  ...VALUE_CASES,
  ...CLOSED_CASES,
  ...API_KEY_CASES,
  ...AUDIT_CASES,
]
