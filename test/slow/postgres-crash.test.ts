// The long form of postgres-crash.test.ts: the postmaster and single connections' processes, short and long outages.
import { describe, expect, it } from 'vitest'
import { crashPostgresRepeatedly, describePostgresFigures } from '../faults/postgres-crash-run.js'
import { backend } from '../support/database/database.js'

/** What the service promises: it is back this long after its database is. */
const RECOVERY_MS = 5_000

describe.skipIf(backend() === 'embedded')(
  'PostgreSQL killed under load (the embedded one dies with the server)',
  () => {
    it('keeps what was acknowledged, and is served again within 5 s of taking connections', async () => {
      const figures = await crashPostgresRepeatedly({
        kills: 40,
        betweenMs: [200, 3_000],
        downMs: [0, 8_000],
        backendEvery: 4,
      })
      console.log(describePostgresFigures(figures))
      expect(figures.violations).toEqual([])
      expect(figures.recoveredMs.at(-1)).toBeLessThanOrEqual(RECOVERY_MS)
    })
  },
)
