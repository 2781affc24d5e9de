// packages/sdk/docs/errors.md names each code there is, and none besides.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { PROBLEMS, type ProblemCode } from '../../packages/protocol/src/problem.js'
import type { BrokerProblemCode } from '../../packages/sdk/src/broker/problem.js'
import type { EaasErrorCode } from '../../packages/sdk/src/index.js'

// Records by the unions of the sources: with a code too few or too many they do not compile.
const SDK: Record<EaasErrorCode, true> = {
  E_INVALID_INPUT: true,
  E_API: true,
  E_NETWORK: true,
  E_TIMEOUT: true,
  E_ABORTED: true,
  E_PROTOCOL: true,
  E_DECRYPTION: true,
  E_CONTENT: true,
  E_RANDOMNESS: true,
  E_COLD: true,
  E_DATABASE: true,
}
const BROKER: Record<Exclude<BrokerProblemCode, ProblemCode>, number> = {
  E_CROSS_SITE: 403,
  E_NOT_ALLOWED: 403,
  E_TOO_MANY_CALLS: 429,
  E_BAD_GATEWAY: 502,
}

const page = readFileSync(fileURLToPath(new URL('../../packages/sdk/docs/errors.md', import.meta.url)), 'utf8')

describe('the page of errors', () => {
  it('has a section for each code of the SDK, with its cause and its remedy', () => {
    const sections = sectionOf('Codes of the SDK').split(/^### /m).slice(1)
    expect(sections.map((section) => section.split('\n')[0])).toEqual(Object.keys(SDK))
    for (const section of sections) expect(section).toMatch(/\*\*Cause\.\*\* .+\*\*Remedy\.\*\* .+/s)
  })

  it('has a row for each code of the service, with its status, its cause and its remedy', () => {
    const expected = Object.entries(PROBLEMS).map(([code, { status }]) => [code, status])
    expect(rowsOf('Codes of the service')).toEqual(expected)
  })

  it('has a row for each code that only a broker has', () => {
    expect(rowsOf('Codes of a broker')).toEqual(Object.entries(BROKER))
  })
})

function sectionOf(heading: string): string {
  return page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
}

/** Code and status of each row that has a cause and a remedy too. */
function rowsOf(heading: string): (string | number)[][] {
  const rows = sectionOf(heading).matchAll(/^\| `(E_\w+)` \| (\d+) \| [^|]+ \| [^|]+ \|$/gm)
  return [...rows].map(([, code = '', status]) => [code, Number(status)])
}
