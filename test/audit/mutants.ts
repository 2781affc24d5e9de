// Mutants of the server: each has one part left out of one of its MACs, by a patch of the text of its source.
import { readFileSync } from 'node:fs'

const AUDIT = new URL('../../packages/server/src/audit/', import.meta.url)

/** What is authenticated, and the function that writes its parts into an array. */
const SEALED = [
  { what: 'entry', file: 'chain.ts', writer: 'entryBytes' },
  { what: 'head', file: 'chain.ts', writer: 'headMac' },
  { what: 'mark', file: 'chain.ts', writer: 'purgeMarkMac' },
  { what: 'tenants', file: 'row-mac.ts', writer: 'tenantMac' },
  { what: 'keys', file: 'row-mac.ts', writer: 'keyMac' },
  { what: 'key_versions', file: 'row-mac.ts', writer: 'keyVersionMac' },
  { what: 'api_keys', file: 'row-mac.ts', writer: 'apiKeyMac' },
] as const

/** `tenant_id`, `entry.tenant_id`, `encodeHex(row.tenant_id)`, `...unlessUtf8(row.encoding)`; a label, in capitals, is no part */
const PART = /^\s*(?:\.{3})?(?:\w+\()?(?:\w+\.)?([a-z_]+)\)?\s*$/

export type Sealed = (typeof SEALED)[number]['what']

export interface Mutant {
  what: Sealed
  /** the column that is left out */
  column: string
  /** of packages/server/src/audit */
  file: (typeof SEALED)[number]['file']
  /** the file's text without the column */
  text: string
}

/** Every mutant there is: one for each part of each array that is authenticated. */
export function listMutants(): Mutant[] {
  return SEALED.flatMap(({ what, file, writer }) => {
    const text = readFileSync(new URL(file, AUDIT), 'utf8')
    const body = text.indexOf('{\n', text.indexOf(`export function ${writer}(`))
    const from = text.indexOf('[', body) + 1
    const to = text.indexOf('])', from)
    const elements = text.slice(from, to).split(',')
    return elements.flatMap((element, at) => {
      const column = PART.exec(element)?.[1]
      const without = elements.filter((_, other) => other !== at).join(',')
      return column === undefined ? [] : [{ what, file, column, text: text.slice(0, from) + without + text.slice(to) }]
    })
  })
}

/** A guard of the server, and how its source reads without it. */
export interface Guard {
  guard: string
  text: string
}

/** Mutants of a file of packages/server/src/audit: each is without one of its guards. */
export function listGuardMutants(file: keyof typeof GUARDS): Guard[] {
  const source = readFileSync(new URL(file, AUDIT), 'utf8')
  return GUARDS[file].map(({ guard, from, to }) => {
    if (source.split(from).length !== 2) throw new Error(`the source of the guard is not there once: ${guard}`)
    return { guard, text: source.replace(from, to) }
  })
}

const RIGHTS_GUARDS = [
  { guard: 'a change replaces the last entry of its row', from: 'return replaces === last', to: 'return true' },
  { guard: 'a change replaces an entry that exists', from: '(replaces as number) >= 1', to: 'true' },
  { guard: 'a change replaces an entry of before the log', from: '(replaces as number) <= after_id', to: 'true' },
  { guard: 'what a change replaces is a number', from: 'Number.isSafeInteger(replaces)', to: 'true' },
  { guard: 'a revoked API key makes no call', from: ' || actor.isRevoked', to: '' },
  {
    guard: 'an API key that was not created makes no call',
    from: 'if (!actor || actor.isRevoked) return false',
    to: 'if (!actor) return true\n    if (actor.isRevoked) return false',
  },
  { guard: 'an API key acts by its rights on record', from: 'if (!isAllowedOnRecord(', to: 'if (false && (' },
  {
    guard: 'a change of an API key ends what was found allowed',
    from: "'state_violated'\n    allowed.clear()",
    to: "'state_violated'",
  },
  {
    guard: 'a change of the tenant ends what was found allowed',
    from: 'tenantEntry = entry.id\n    allowed.clear()',
    to: 'tenantEntry = entry.id',
  },
  {
    guard: 'a change that states no permissions leaves them',
    from: 'readPermissions(told) ?? known?.permissions',
    to: 'readPermissions(told)',
  },
  {
    guard: 'the first entry tells the settings of the tenant',
    from: "tenant = { status: 'active', envelope_only: told.envelope_only }",
    to: '',
  },
  { guard: 'a change of the tenant is remembered', from: 'tenant = { status, envelope_only }\n', to: '' },
  {
    guard: 'a key is created before its use',
    from: 'if (known || isWhole) return known',
    to: 'if (known) return known',
  },
  { guard: 'a key is created once', from: 'keys.has(key_id) || ', to: '' },
  { guard: 'a key is created with version 1', from: ' || entry.key_version !== 1', to: '' },
  { guard: 'only an active key wraps', from: "isIn(key, ACTIVE, 'active') && ", to: '' },
  {
    guard: 'a wrap is under the current version',
    from: "isIn(key, ACTIVE, 'active') && isCurrent(key, entry.key_version)",
    to: "isIn(key, ACTIVE, 'active')",
  },
  { guard: 'only a key that opens unwraps', from: 'isIn(key, OPENING) && isVersion', to: 'isVersion' },
  { guard: 'an unwrap is of a version that the key has', from: ' && isVersion(key, entry.key_version)', to: '' },
  { guard: 'only a key that opens is exported', from: 'isIn(key, OPENING) && isCurrent', to: 'isCurrent' },
  {
    guard: 'an export names the current version',
    from: 'isIn(key, OPENING) && isCurrent(key, entry.key_version)',
    to: 'isIn(key, OPENING)',
  },
  {
    guard: 'a change of a key names what it replaces',
    from: 'if (!isReplaced(replaces, key.entry_id)) ',
    to: 'if (false) ',
  },
  {
    guard: 'a destruction has a step',
    from: 'DESTRUCTION.get(readMetadata(entry).step)',
    to: "DESTRUCTION.get(readMetadata(entry).step) ?? DESTRUCTION.get('scheduled')",
  },
  { guard: 'a change of a key follows from its state', from: ' || !isIn(key, change.from)', to: '' },
  { guard: 'a change of a key names the current version', from: ' || !isCurrent(key, current)', to: '' },
  { guard: 'a destruction is of all versions', from: 'versions !== version', to: 'false' },
  {
    guard: 'a change of a key is remembered as its state',
    from: 'key.status = change.to ?? key.status',
    to: 'void change.to',
  },
  {
    guard: 'an entry about an API key names it',
    from: "if (typeof api_key_id !== 'string') return 'state_violated'",
    to: "if (api_key_id === undefined) return undefined\n    if (typeof api_key_id !== 'string') return undefined",
  },
  { guard: 'an API key is created once', from: "if (known) return 'state_violated'", to: '' },
  {
    guard: 'an API key is created before it is changed',
    from: "if (!known && isWhole) return 'state_violated'",
    to: 'if (!known && isWhole) return undefined',
  },
  {
    guard: 'a change of an API key names what it replaces',
    from: 'if (!isReplaced(replaces, known?.entry_id)) ',
    to: 'if (false) ',
  },
  { guard: 'nothing follows a revocation', from: "if (known?.isRevoked) return 'state_violated'", to: '' },
  {
    guard: 'a change of the tenant names what it replaces',
    from: 'if (!isReplaced(replaces, tenantEntry)) ',
    to: 'if (false) ',
  },
  { guard: 'a version is known from its first use on', from: 'key.version ??= key_version\n', to: '' },
  { guard: 'a key that wraps is active from then on', from: 'key.status ??= known\n', to: '' },
]

const GUARDS = {
  'rights-history.ts': RIGHTS_GUARDS,
  'recorded-rights.ts': [
    {
      guard: 'no API key does what only the operator does',
      from: 'if (!needed) return false',
      to: 'if (!needed) return true',
    },
    {
      guard: 'no API key of a suspended tenant acts',
      from: "if (tenant.status !== undefined && tenant.status !== 'active') return false",
      to: '',
    },
    { guard: 'nothing is encrypted while server mode is closed', from: "action === 'encrypt' || ", to: '' },
    { guard: 'nothing is decrypted while server mode is closed', from: " || action === 'decrypt'", to: '' },
    { guard: 'an API key holds what the action needs', from: '!findMissingPermission(held, needed) && ', to: '' },
    {
      guard: 'an API key grants what it holds',
      from: ' && !findMissingPermission(held, findGranted(action, told, before))',
      to: '',
    },
    { guard: 'an API key grants a new one what it holds', from: "(action !== 'api_key.create' && ", to: '(' },
    { guard: 'an API key grants another one what it holds', from: " && action !== 'api_key.update'", to: '' },
  ],
  'newest-row.ts': [
    { guard: 'a row names the newest entry about it', from: ': entry_id === newest_entry', to: ': true' },
    {
      guard: 'a row without an entry was purged',
      from: 'mark !== undefined && isPurge',
      to: 'mark === undefined || isPurge',
    },
    { guard: 'a purge was marked by the server', from: 'isPurgeMarkAuthentic(auditKey, mark) && ', to: '' },
    { guard: 'a purge took the entry of the row', from: ' && entry_id <= mark.purged_through', to: '' },
  ],
  'listed-entries.ts': [
    { guard: 'an entry has the hash that follows', from: '!equalBytes(entry.hash, hash) || ', to: '' },
    {
      guard: 'an entry has the MAC of the server',
      from: ' || !equalBytes(entry.mac, entryMac(auditKey, hash))',
      to: '',
    },
    { guard: 'no entry of the page is missing', from: 'range && id !== range.after_id + 1 + at', to: 'false' },
    {
      guard: 'the entry before is there',
      from: 'if (!previous) throw',
      to: 'if (!previous) return\n    if (false) throw',
    },
    { guard: 'the last entry of the page is there', from: 'last_id < range.through_id', to: 'false' },
  ],
} as const satisfies Record<string, readonly { guard: string; from: string; to: string }[]>
