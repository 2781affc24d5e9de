// The guides of the server name each metric, each setting and each command there is, and none besides.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { FOLLOW_VARIABLES } from '../../packages/audit/src/command/follow.js'
import { WITNESS_VARIABLES } from '../../packages/audit/src/witness/config.js'
import { VARIABLES } from '../../packages/server/src/core/settings.js'
import { commandNames } from '../support/sources/commands.js'
import { readMetrics } from '../support/sources/metrics.js'
import { readGuide } from '../support/sources/server-docs.js'
import { ROOT } from '../support/sources/source-files.js'

const readme = readFileSync(join(ROOT, 'packages/server/README.md'), 'utf8')
const pages = readdirSync(join(ROOT, 'packages/server/docs')).filter((name) => name.endsWith('.md'))
const guides = pages.map(readGuide).join('\n') + readme
/** What else begins like a metric: API keys, the variable of a proxy, a role of the database and a second database. */
const METRIC = /\beaas_(?!sk_|pk_|tenant\b|owner\b|2\b)[a-z0-9_]+/g

/** Where `/health` finds what is wrong, and its names for that. */
const HEALTH = ['packages/server/src/core/api/health.ts', 'packages/server/src/core/store/writability.ts']

const sorted = (names: Iterable<string | undefined>) => [...new Set(names)].sort()

describe('the guides of the server', () => {
  it('name each metric that the server has, and no other', () => {
    const metrics = readMetrics().map(({ name }) => name)
    expect(metrics.length).toBeGreaterThan(25)
    const named = [...guides.matchAll(METRIC)].map(([name]) => name.replace(/_bucket$/, ''))
    expect(sorted(named)).toEqual(sorted(metrics))
  })

  it('name each setting of the server, of a witness and of a follower, and no other', () => {
    const settings = [VARIABLES, WITNESS_VARIABLES, FOLLOW_VARIABLES].flatMap(Object.keys)
    const named = [...guides.matchAll(/\bEAAS_[A-Z_]*[A-Z]\b/g)].map(([name]) => name)
    expect(sorted(named)).toEqual(sorted(settings))
  })

  it('name each state of /health, and no other', () => {
    const sources = HEALTH.map((path) => readFileSync(join(ROOT, path), 'utf8')).join('\n')
    const states = [...sources.matchAll(/\b(?:database|part): '(\w+)'/g)].map(([, state]) => state)
    const [, section = ''] = /^## Health\n(.*?)^## /ms.exec(readGuide('monitoring.md')) ?? []
    const named = [...section.matchAll(/^\| `(\w+)` \| (?:200|503) \|/gm)].map(([, state]) => state)
    expect(states.length).toBeGreaterThan(8)
    expect(sorted(named)).toEqual(sorted(states))
  })

  it('list each command in the README, and no other', () => {
    const listed = [...readme.matchAll(/^\| `eaas ([\w-]+)(?: ([\w|\\-]+))?[^`]*` \|/gm)].flatMap(
      ([, command = '', subs]) =>
        subs === undefined ? [command] : subs.split('\\|').map((sub) => `${command} ${sub}`),
    )
    expect(sorted(listed)).toEqual(sorted(commandNames()))
  })
})
