// What a command, a report or an error counts is written by `counted` of the protocol: "1 key", "2 keys".
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

const MANY =
  'API keys|addresses|alarms|anchors|attempts|bytes|calls|cells|characters|checkpoints|columns|connections|days|entries|' +
  'envelopes|fields|files|hashes|hours|items|keys|lines|logs|minutes|months|operations|others|records|refusals|rows|' +
  'seconds|servers|shares|tables|tenants|times|users|values|versions|witnesses'
/** A number in a text, and behind it what it counts. A constant, in capitals, is more than 1. */
const COUNT = new RegExp(`\\$\\{(?![A-Z_]+\\W)([^{}]+)\\}((?: further| more| earlier)? (?:${MANY})\\b)`, 'g')

/** Numbers that are more than 1 there: the sentence has other words for 1, or is not said of 1. */
const MORE_THAN_ONE = [
  'audit/src/command/follow/service-log.ts: broken.times times',
  'audit/src/report/evidence.ts: verified_entries entries',
  'audit/src/verify/verify-export.ts: last_id entries',
  'cli/src/files.ts: most bytes',
  'console/src/pages/key.tsx: left.length versions',
  'protocol/src/envelope-binding.ts: most bytes',
  'protocol/src/envelope.ts: length bytes',
  'protocol/src/problem-details.ts: most keys',
  'protocol/src/wire/requests.ts: most items',
  'protocol/src/wire/values.ts: length bytes',
  'server/src/core/api/health.ts: others tenants',
  'server/src/core/api/health.ts: tenants tenants',
  'server/src/core/store/audit-list.ts: entries entries',
  'server/src/embedded/socket.ts: length bytes',
  'server/src/operate/cli/examine-logs.ts: 2 * checkpointMinutes minutes',
  'server/src/operate/cli/output.ts: alarms alarms',
  'server/src/operate/operations/rotate-store-key.ts: left rows',
  'server/src/root-keys/generate.ts: max shares',
  'server/src/root-keys/pkcs11.ts: count keys',
  'server/src/root-keys/root-key-share.ts: threshold shares',
]

it('no text has a plural behind a number that may be 1', () => {
  const sources = ['audit', 'cli', 'conformance', 'console', 'protocol', 'server'].flatMap((name) =>
    filesBelow(`packages/${name}/src`).filter(
      (path) => /(?<!\.test)\.tsx?$/.test(path) && !path.includes('/test-support/'),
    ),
  )
  const found = sources.flatMap((path) =>
    [...readFileSync(join(ROOT, path), 'utf8').matchAll(COUNT)].map(
      ([, count, things]) => `${path.replace('packages/', '')}: ${count}${things}`,
    ),
  )
  expect([...new Set(found)].sort()).toEqual(MORE_THAN_ONE)
})
