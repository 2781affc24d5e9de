// Attacks on the entries themselves: each column, in the first, the middle and the last entry.
import { describe, expect, it } from 'vitest'
import type { Entry } from '../../independent/stored.js'
import { columnsOf } from '../../support/database/migrations.js'
import { rounds } from '../../support/run/rounds.js'
import { expectNoticed, LOGS, type Log, of, run, useScene } from './attacks.js'

useScene()

/** The first, the middle and the last entry that an edit can be made to. */
const POSITIONS = {
  first: (entries: Entry[]) => entries[0],
  middle: (entries: Entry[]) => entries[Math.floor(entries.length / 2)],
  last: (entries: Entry[]) => entries.at(-1),
} as const
const POSITION_NAMES = Object.keys(POSITIONS) as (keyof typeof POSITIONS)[]

interface Edit {
  column: string
  to: string
  set: string
  reason?: string
  when?: (entry: Entry) => boolean
}
const hasMetadata = ({ metadata }: Entry) => metadata !== null
const metadataHas = (part: string) => (entry: Entry) => entry.metadata?.includes(part) ?? false
const isPerson = ({ actor }: Entry) => actor !== 'system'

const EDITS: readonly Edit[] = [
  { column: 'tenant_id', to: 'that of nobody', set: 'gen_random_uuid()', reason: 'entry_missing' },
  { column: 'id', to: 'a later one', set: 'id + 1000', reason: 'entry_missing' },
  { column: 'id', to: 'a negative one', set: '-id', reason: 'entry_missing' },
  { column: 'id', to: 'the largest there is', set: '9223372036854775807', reason: 'entry_missing' },
  { column: 'action', to: 'another', set: "case action when 'key.wrap' then 'key.unwrap' else 'key.wrap' end" },
  { column: 'action', to: 'capitals', set: 'upper(action)' },
  { column: 'action', to: 'an empty one', set: "''" },
  { column: 'key_id', to: 'another', set: 'gen_random_uuid()', when: (entry) => entry.key_id !== null },
  { column: 'key_id', to: 'NULL', set: 'null', when: (entry) => entry.key_id !== null },
  {
    column: 'key_id',
    to: 'nil from NULL',
    set: "'00000000-0000-0000-0000-000000000000'",
    when: (entry) => entry.key_id === null,
  },
  { column: 'key_version', to: 'the next', set: 'key_version + 1', when: (entry) => entry.key_version !== null },
  { column: 'key_version', to: 'NULL', set: 'null', when: (entry) => entry.key_version !== null },
  { column: 'key_version', to: '0 from NULL', set: '0', when: (entry) => entry.key_version === null },
  { column: 'actor', to: 'somebody else', set: 'gen_random_uuid()::text' },
  { column: 'actor', to: 'the system', set: "'system'", when: isPerson },
  { column: 'actor', to: 'the system in capitals', set: "'System'", when: (entry) => !isPerson(entry) },
  { column: 'actor', to: 'its UUID in capitals', set: 'upper(actor)', when: isPerson },
  { column: 'actor', to: 'its UUID without dashes', set: "replace(actor, '-', '')", when: isPerson },
  { column: 'actor', to: 'its UUID in braces', set: "'{' || actor || '}'", when: isPerson },
  { column: 'actor', to: 'itself and a blank', set: "actor || ' '" },
  { column: 'actor', to: 'an empty one', set: "''" },
  { column: 'ip_address', to: 'an empty one from NULL', set: "''", when: (entry) => entry.ip_address === null },
  { column: 'ip_address', to: 'NULL', set: 'null', when: (entry) => entry.ip_address !== null },
  {
    column: 'ip_address',
    to: 'its IPv4-mapped form',
    set: "'::ffff:' || ip_address",
    when: (entry) => entry.ip_address !== null,
  },
  { column: 'ip_address', to: 'its CIDR form', set: "ip_address || '/32'", when: (entry) => entry.ip_address !== null },
  {
    column: 'ip_address',
    to: 'a spelling with zeros',
    set: "'127.000.000.001'",
    when: (entry) => entry.ip_address !== null,
  },
  { column: 'metadata', to: 'an empty text from NULL', set: "''", when: (entry) => entry.metadata === null },
  { column: 'metadata', to: 'JSON null from NULL', set: "'null'", when: (entry) => entry.metadata === null },
  { column: 'metadata', to: '{} from NULL', set: "'{}'", when: (entry) => entry.metadata === null },
  { column: 'metadata', to: 'NULL', set: 'null', when: hasMetadata },
  { column: 'metadata', to: '{}', set: "'{}'", when: hasMetadata },
  { column: 'metadata', to: 'itself with a blank', set: "replace(metadata, ':', ': ')", when: hasMetadata },
  { column: 'metadata', to: 'itself with an escape', set: "replace(metadata, 'a', '\\u0061')", when: metadataHas('a') },
  { column: 'metadata', to: 'its UUID in capitals', set: 'upper(metadata)', when: metadataHas('api_key_id') },
  {
    column: 'metadata',
    to: 'another order of its members',
    set: `regexp_replace(metadata, '^\\{("[a-z_]+":"?[^",]+"?),("[a-z_]+":"?[^",]+"?)\\}$', '{\\2,\\1}')`,
    when: ({ metadata }) => /^\{("[a-z_]+":"?[^",]+"?),("[a-z_]+":"?[^",]+"?)\}$/.test(metadata ?? ''),
  },
  {
    column: 'metadata',
    to: 'another form of its number',
    set: `regexp_replace(metadata, ':(\\d+)', ':\\1.0')`,
    when: ({ metadata }) => /:\d/.test(metadata ?? ''),
  },
  {
    column: 'metadata',
    to: 'its number as a text',
    set: `regexp_replace(metadata, ':(\\d+)', ':"\\1"')`,
    when: ({ metadata }) => /:\d/.test(metadata ?? ''),
  },
  {
    column: 'metadata',
    to: 'another boolean',
    set: `replace(replace(metadata, 'true', 'no'), 'false', 'true')`,
    when: metadataHas('false'),
  },
  { column: 'created_at', to: 'a millisecond later', set: "created_at + interval '1 ms'" },
  { column: 'created_at', to: 'a millisecond earlier', set: "created_at - interval '1 ms'" },
  { column: 'created_at', to: 'the end of time', set: "'infinity'" },
  { column: 'created_at', to: 'a year beyond all calendars', set: "'294276-12-31T23:59:59Z'" },
  { column: 'created_at', to: 'an hour later, as in another zone', set: "created_at + interval '1 hour'" },
  { column: 'hash', to: 'one with a flipped bit', set: 'set_byte(hash, 31, get_byte(hash, 31) # 1)' },
  { column: 'hash', to: 'an empty one', set: "''" },
  { column: 'hash', to: 'zeros', set: "decode(repeat('00', 32), 'hex')" },
  { column: 'hash', to: 'its MAC', set: 'mac' },
  {
    column: 'mac',
    to: 'one with a flipped bit',
    set: 'set_byte(mac, 0, get_byte(mac, 0) # 128)',
    reason: 'entry_forged',
  },
  { column: 'mac', to: 'an empty one', set: "''", reason: 'entry_forged' },
  { column: 'mac', to: 'zeros', set: "decode(repeat('00', 32), 'hex')", reason: 'entry_forged' },
  { column: 'mac', to: 'a shorter one', set: 'substring(mac for 16)', reason: 'entry_forged' },
  { column: 'mac', to: 'its hash', set: 'hash', reason: 'entry_forged' },
]

/** All in the first log. In the other one they take turns; `npm run test:slow` has them all there too. */
function positionsIn(log: Log, at: number) {
  const turn = at % POSITION_NAMES.length
  const turned = [...POSITION_NAMES.slice(turn), ...POSITION_NAMES.slice(0, turn)]
  return log === 'whole' ? turned : turned.slice(0, rounds(1, turned.length))
}

describe.each(LOGS)('an entry of a log that is %s', (log) => {
  const cases = EDITS.flatMap((edit, at) => positionsIn(log, at).map((position) => ({ ...edit, position })))

  it.each(cases)(
    'whose $column became $to is named ($position)',
    async ({ column, set, reason, when = () => true, position }) => {
      const target = of(log)
      const entry = POSITIONS[position](target.entries.filter(when))
      if (!entry) throw new Error(`the scene has no entry for this edit of ${column}`)
      const edit = () =>
        run(`update audit_log set ${column} = ${set} where tenant_id = $1 and id = $2`, [target.tenant_id, entry.id])
      // At an end, an entry that is another tenant's now is an entry that was cut off.
      const isBeyondChain = column === 'tenant_id' && position !== 'middle'
      await expectNoticed(target, edit, { reason: reason ?? 'entry_altered', broken_at: entry.id, isBeyondChain })
    },
  )
})

it('every column of an entry is among those that are edited', () => {
  expect([...new Set(EDITS.map(({ column }) => column))].sort()).toEqual(columnsOf('audit_log').sort())
})

const ACTIONS_EXPECTED = [
  'api_key.create',
  'api_key.restate',
  'api_key.revoke',
  'api_key.update',
  'audit.purge',
  'decrypt',
  'encrypt',
  'envelope_only.refused',
  'key.create',
  'key.destroy',
  'key.disable',
  'key.enable',
  'key.export',
  'key.restate',
  'key.rotate',
  'key.rotation_policy',
  'key.unwrap',
  'key.wrap',
  'tenant.restate',
  'tenant.update',
]

it('every action stands in the logs that are attacked', () => {
  const actions = new Set(LOGS.flatMap((log) => of(log).entries.map(({ action }) => action)))
  expect([...actions].sort()).toEqual([...new Set(ACTIONS_EXPECTED)].sort())
})
