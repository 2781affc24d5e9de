// packages/sdk/docs/errors.md and service-errors.md name each code there is, and none besides; docstrings name no other, and the SDK repeats what the list says.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { PROBLEMS, type ProblemCode } from '../../packages/protocol/src/problem.js'
import { ROUTES } from '../../packages/protocol/src/routes.js'
import type { BrokerProblemCode } from '../../packages/sdk/src/broker/problem.js'
import { mayPass } from '../../packages/sdk/src/http/failures.js'
import type { EaasErrorCode } from '../../packages/sdk/src/index.js'
import { sourcesBelow } from '../support/sources/source-files.js'

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

const page = ['errors', 'service-errors']
  .map((name) => readFileSync(fileURLToPath(new URL(`../../packages/sdk/docs/${name}.md`, import.meta.url)), 'utf8'))
  .join('\n')

describe('the pages of errors', () => {
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

describe('the retry rule of each code of the service', () => {
  it.each(Object.entries<{ status: number; retry?: true }>(PROBLEMS))(
    'is the one by which the SDK repeats: %s',
    (_, { status, retry = false }) => {
      const call = { ...ROUTES.wrap, repeatable: true } as unknown as Parameters<typeof mayPass>[0]
      expect(mayPass(call, status)).toBe(retry)
      expect(mayPass({ ...call, repeatable: false }, status)).toBe(false)
    },
  )
})

describe('the @throws lists', () => {
  const known = new Set([...Object.keys(PROBLEMS), ...Object.keys(SDK), ...Object.keys(BROKER)])
  const named = ['packages/protocol/src', 'packages/sdk/src', 'packages/server/src'].flatMap((folder) =>
    sourcesBelow(folder).flatMap(({ tree }) =>
      [...tree.text.matchAll(/@throws[^@]*?(?:\*\/|\n\s*\*\s*\n)/g)].flatMap(
        ([list]) => list.match(/\bE_[A-Z_]+\b/g) ?? [],
      ),
    ),
  )

  it('name codes that there are', () => {
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter((code) => !known.has(code))).toEqual([])
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
