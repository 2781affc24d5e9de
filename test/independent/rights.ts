// The history of rights of chain.md 11 and 13, for the independent verifier: written from that page alone, imports nothing of the project.

/** What the history reads of an entry. */
export interface Deed {
  id: number
  action: string
  key_id: string | null
  key_version: number | null
  actor: string
  metadata: string | null
}

export type Wrong = 'replaces_mismatch' | 'state_violated'

class Breach extends Error {
  constructor(readonly wrong: Wrong) {
    super(wrong)
  }
}

/** null is what only the entries before the first one could tell */
interface Thing {
  last: number | null
  state: string | null
  version: number | null
  /** of a key: the oldest version that opens */
  least?: number | null
  /** of a key: the newest version that was destroyed alone */
  gone?: number | null
  /** of a key */
  folder?: string | undefined
  /** of an API key */
  holds?: ReadonlySet<string> | undefined
  /** of an API key: what it is limited to, null for all keys */
  list?: readonly string[] | null | undefined
}

/** What an API key must hold for each action (chain.md 13); null where none may write it. */
const NEEDED = new Map<string, string | null>(
  Object.entries({
    'key.wrap': 'wrap',
    'key.unwrap': 'unwrap',
    'key.index_secret': 'unwrap',
    encrypt: 'encrypt',
    decrypt: 'decrypt',
    'key.create': 'keys:create',
    'key.rotate': 'keys:rotate',
    'key.rotation_policy': 'keys:rotate',
    'key.update': 'keys:destroy',
    'key.enable': 'keys:disable',
    'key.disable': 'keys:disable',
    'key.destroy': 'keys:destroy',
    'key.export': 'keys:export',
    'key.restate': null,
    'api_key.create': 'api_keys:manage',
    'api_key.update': 'api_keys:manage',
    'api_key.revoke': 'api_keys:manage',
    'api_key.restate': null,
    'tenant.update': null,
    'tenant.restate': null,
    'audit.purge': null,
    'audit.rollback_accepted': null,
    'audit.clock_accepted': null,
    'usage.doubled': null,
    'audit.key_renew': null,
  }),
)

const NAMES_CURRENT =
  /^(?:key\.(?:wrap|export|index_secret|rotate|rotation_policy|update|enable|disable|destroy|restate)|encrypt)$/
const CHANGES_KEY = /^key\.(?:rotate|rotation_policy|update|enable|disable|destroy|restate)$/
/** For an action, or the step of a destruction: the states that it is done in, and the state that it leads to. */
const STATES = new Map<string, [from: string, to?: string]>(
  Object.entries({
    'key.wrap': ['active', 'active'],
    encrypt: ['active', 'active'],
    'key.unwrap': ['active disabled'],
    decrypt: ['active disabled'],
    'key.export': ['active disabled'],
    'key.index_secret': ['active disabled'],
    'key.rotate': ['active', 'active'],
    'key.rotation_policy': ['active disabled'],
    'key.disable': ['active', 'disabled'],
    'key.enable': ['disabled', 'active'],
    'key.destroy scheduled': ['disabled', 'pending'],
    'key.destroy cancelled': ['pending', 'disabled'],
    'key.destroy completed': ['active disabled pending', 'destroyed'],
    'key.rotation_policy active': ['active', 'active'],
    'key.rotation_policy disabled': ['disabled', 'disabled'],
    'key.update active': ['active', 'active'],
    'key.update disabled': ['disabled', 'disabled'],
    'key.destroy version active': ['active', 'active'],
    'key.destroy version disabled': ['disabled', 'disabled'],
    'key.restate active': ['active', 'active'],
    'key.restate disabled': ['disabled', 'disabled'],
    'key.restate pending_destruction': ['pending', 'pending'],
    'key.restate destroyed': ['destroyed', 'destroyed'],
  }),
)

export class Rights {
  readonly #things = new Map<string, Thing>()
  /** undefined is what only the entries before the first one could tell */
  #status: unknown
  #isClosed: unknown

  constructor(readonly before: number) {}

  /** What is wrong with the next entry, if anything is. */
  read(deed: Deed): Wrong | undefined {
    try {
      this.#actor(deed)
      if (deed.key_id !== null) this.#key(deed, `key ${deed.key_id}`)
      else if (/^api_key\.(?:create|update|revoke|restate)$/.test(deed.action)) this.#apiKey(deed)
      else if (/^tenant\.(?:update|restate)$/.test(deed.action)) this.#tenant(deed)
      return undefined
    } catch (error) {
      if (error instanceof Breach) return error.wrong
      throw error
    }
  }

  /** What is wrong after the last entry, if anything is. */
  end(): 'deletion_incomplete' | undefined {
    if (this.#status !== 'deleted') return undefined
    const isOver = ([name, { state }]: [string, Thing]) =>
      name.startsWith('key ') ? state === null || state === 'destroyed' : name === 'tenant' || state === 'revoked'
    return [...this.#things].every(isOver) ? undefined : 'deletion_incomplete'
  }

  #allow(condition: boolean): void {
    if (!condition) throw new Breach('state_violated')
  }

  #actor(deed: Deed): void {
    const { actor } = deed
    if (!/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(actor)) return
    const { state, holds, list } = this.#known(`API key ${actor}`)
    this.#allow(state !== 'revoked')
    this.#allow(this.#status === undefined || this.#status === 'active')
    this.#allow(!(this.#isClosed === true && /^(?:en|de)crypt$/.test(deed.action)))
    for (const needed of this.#needs(deed)) {
      this.#allow(needed !== null)
      const wider = needed === 'unwrap' ? 'decrypt' : needed === 'wrap' || needed === 'hash' ? 'encrypt' : ''
      this.#allow(!holds || holds.has(needed ?? '') || holds.has(wider))
    }
    if (list) for (const items of this.#touches(deed)) this.#allow(this.#covers(list, items))
  }

  /** The lists that must be within the actor's: of the key that a deed names, or of an API key before and after. */
  *#touches({ action, actor, key_id, metadata }: Deed): Generator<readonly string[] | null> {
    const told = tell(metadata)
    if (action === 'api_key.revoke' && told.api_key_id === actor) return
    if (key_id !== null) {
      if (action === 'key.create')
        yield [key_id, ...(typeof told.folder === 'string' ? [`${told.folder}*`] : [])].slice(-1)
      else yield [key_id]
    } else if (/^api_key\.(?:create|update|revoke)$/.test(action)) {
      const before = action === 'api_key.create' ? undefined : this.#things.get(`API key ${told.api_key_id}`)?.list
      const after = grantOf(told) && listOf(told)
      // One of no key is managed by who is not limited.
      for (const list of [before?.length === 0 ? null : before, after]) if (list !== undefined) yield list
    }
  }

  /** Whether each item of a list is in another one. */
  #covers(held: readonly string[] | null, list: readonly string[] | null): boolean {
    if (held === null || list === null) return held === null
    const prefixes = held.filter((item) => item.endsWith('/*')).map((item) => item.slice(0, -1))
    return list.every((item) => {
      if (held.includes(item)) return true
      const where = item.endsWith('*') ? item.slice(0, -1) : this.#things.get(`key ${item}`)?.folder
      return prefixes.length > 0 && (where === undefined || prefixes.some((prefix) => where.startsWith(prefix)))
    })
  }

  /** Each permission that the actor must hold, null for one that no API key has. */
  *#needs({ action, actor, metadata }: Deed): Generator<string | null> {
    const told = tell(metadata)
    const needed = NEEDED.get(action)
    const ofItself = action === 'api_key.revoke' && told.api_key_id === actor
    if (needed !== undefined && !ofItself) yield needed
    if (action === 'key.wrap' && 'rewrapped_from' in told) yield 'unwrap'
    if (action === 'envelope_only.refused' && /^(?:en|de)crypt$/.test(`${told.operation}`)) yield `${told.operation}`
    if ('on_behalf_of' in told) yield 'audit:on_behalf_of'
    if (!/^api_key\.(?:create|update)$/.test(action)) return
    const had =
      action === 'api_key.create'
        ? { holds: new Set<string>(), list: [] }
        : (this.#things.get(`API key ${told.api_key_id}`) ?? {})
    const { holds: before, list } = had
    const now = grantOf(told) && listOf(told)
    const gets = list !== undefined && now !== undefined && !this.#covers(list, now)
    const all = gets || isLooser(told)
    for (const granted of grantOf(told) ?? (all ? before : undefined) ?? [])
      if (all || (before && !before.has(granted))) yield granted
  }

  #tenant(deed: Deed): void {
    this.#replace(this.#thing('tenant'), deed)
    const { status = this.#status, envelope_only = this.#isClosed } = tell(deed.metadata)
    if (deed.action === 'tenant.restate') {
      this.#allow(this.#status === undefined || this.#status === status)
      this.#allow(this.#isClosed === undefined || this.#isClosed === envelope_only)
    }
    this.#status = status
    this.#isClosed = envelope_only
  }

  /** What an entry is about: created by an entry that was read, or maybe by one that was not. */
  #known(name: string): Thing {
    if (this.before === 0) this.#allow(this.#things.has(name))
    return this.#thing(name)
  }

  #thing(name: string): Thing {
    const thing = this.#things.get(name) ?? { last: null, state: null, version: null }
    this.#things.set(name, thing)
    return thing
  }

  #create(name: string, thing: Thing): void {
    this.#allow(!this.#things.has(name))
    this.#things.set(name, thing)
  }

  #replace(thing: Thing, { id, metadata }: Deed): void {
    const { replaces } = tell(metadata)
    const isUnread = Number.isInteger(replaces) && Number(replaces) > 0 && Number(replaces) <= this.before
    if (thing.last === null ? !isUnread : replaces !== thing.last) throw new Breach('replaces_mismatch')
    thing.last = id
  }

  #apiKey(deed: Deed): void {
    const told = tell(deed.metadata)
    const { api_key_id } = told
    this.#allow(typeof api_key_id === 'string')
    const name = `API key ${api_key_id}`
    if (deed.action === 'api_key.create') {
      const holds = grantOf(told)
      const list = holds && listOf(told)
      this.#allow(!holds || list !== undefined)
      this.#create(name, { last: deed.id, state: 'active', version: null, holds, list })
      if (deed.id !== 1) return
      this.#create('tenant', { last: 1, state: null, version: null })
      this.#status = 'active'
      this.#isClosed = told.envelope_only
      return
    }
    const isNew = !this.#things.has(name)
    const thing = this.#known(name)
    this.#replace(thing, deed)
    const holds = grantOf(told)
    const list = holds && listOf(told)
    this.#allow(!holds || list !== undefined)
    if (deed.action === 'api_key.restate') {
      const isRevoked = told.revoked_at !== null
      this.#allow(told.revoked_at !== undefined && holds !== undefined)
      this.#allow(isNew || isRevoked === (thing.state === 'revoked'))
      this.#allow(!thing.holds || `${[...thing.holds].sort()}` === `${[...(holds ?? [])].sort()}`)
      const [was, is] = [thing.list, list].map((one) => one && `${[...one].sort().map((item) => JSON.stringify(item))}`)
      this.#allow(was === undefined || was === is)
      thing.state = isRevoked ? 'revoked' : 'active'
    } else {
      this.#allow(thing.state !== 'revoked')
      thing.state = deed.action === 'api_key.revoke' ? 'revoked' : 'active'
    }
    if (holds) thing.list = list
    thing.holds = holds ?? thing.holds
  }

  #key(deed: Deed, name: string): void {
    const { action, id } = deed
    const version = deed.key_version ?? 0
    if (action === 'key.create') {
      const { folder } = tell(deed.metadata)
      this.#allow(version === 1 && (folder === undefined || typeof folder === 'string'))
      const known = { least: 1, gone: 0, folder: folder as string | undefined }
      this.#create(name, { last: id, state: 'active', version, ...known })
      return
    }
    const key = this.#known(name)
    if (CHANGES_KEY.test(action)) this.#replace(key, deed)
    const { step, status, versions, rewrapped_from, ...told } = tell(deed.metadata)
    const states =
      action === 'key.restate' || action === 'key.update' || (action === 'key.rotation_policy' && status !== undefined)
    const detail =
      action === 'key.destroy' ? (step === 'version' ? ` version ${status}` : ` ${step}`) : states ? ` ${status}` : ''
    const rule = STATES.get(`${action}${detail}`)
    this.#allow(rule !== undefined || detail === '')
    if (!rule) return
    const [from, to] = rule
    this.#allow(key.state === null || from.split(' ').includes(key.state))
    key.state = to ?? key.state
    const opens = (one: unknown) =>
      this.#allow(
        Number.isSafeInteger(one) &&
          Number(one) >= (key.least ?? (key.gone ?? 0) + 1) &&
          Number(one) <= (key.version ?? Number(one)),
      )
    if (!NAMES_CURRENT.test(action)) {
      opens(version)
      return
    }
    const current = action === 'key.rotate' ? version - 1 : version
    this.#allow(current >= 1 && current === (key.version ?? current))
    this.#allow(step !== 'completed' || versions === version)
    key.version = version
    if (action === 'key.wrap' && rewrapped_from !== undefined) opens(rewrapped_from)
    if (action === 'key.destroy' && step === 'version') {
      const number = Number(told.version)
      this.#allow(told.version === number && number >= 1 && number === (key.gone ?? number - 1) + 1)
      this.#allow(number < (key.least ?? version))
      key.gone = number
    }
    if (action === 'key.update') {
      this.#allow((key.least ?? told.min_unwrap_version_before) === told.min_unwrap_version_before)
      key.least = null
      opens(told.min_unwrap_version)
      key.least = Number(told.min_unwrap_version)
    }
    if (action === 'key.restate') {
      const { min_unwrap_version: least = 1 } = told
      this.#allow(least === (key.least ?? least))
      const { destroyed_through: gone = 0 } = told
      this.#allow(Number.isSafeInteger(gone) && Number(gone) >= 0 && gone === (key.gone ?? gone))
      key.gone = Number(gone)
      key.least = null
      opens(least)
      key.least = Number(least)
      const { folder = key.folder } = told
      this.#allow(folder === undefined || typeof folder === 'string')
      this.#allow(key.folder === undefined || key.folder === folder)
      key.folder = folder as string | undefined
    }
  }
}

/** Whether a limit that an entry states is looser than the one that it states of before. */
function isLooser(told: Record<string, unknown>): boolean {
  const [ends, ended, budgets, had] = ['expires_at', 'expires_at_before', 'budgets', 'budgets_before'].map((name) => {
    const text = told[name]
    return typeof text === 'string' ? text : undefined
  })
  const {
    allowed_ips: now,
    allowed_ips_before: before,
    allowed_ips_sha256: isLong,
    allowed_ips_before_sha256: wasLong,
  } = told
  if (ended !== undefined && (ends === undefined || ends > ended)) return true
  if (had !== undefined && budgets !== had) return true
  if (wasLong !== undefined) return isLong === undefined && typeof now !== 'string'
  if (typeof before !== 'string') return false
  if (isLong !== undefined || typeof now !== 'string') return true
  return new Set([...before.split(' '), ...now.split(' ')]).size > new Set(before.split(' ')).size
}

function grantOf({ permissions }: Record<string, unknown>): ReadonlySet<string> | undefined {
  return typeof permissions === 'string' ? new Set(permissions.split(' ').filter(Boolean)) : undefined
}

/** The keys that an entry limits an API key to, null for all; undefined if that is no list of texts. */
function listOf({ keys }: Record<string, unknown>): readonly string[] | null | undefined {
  if (keys === undefined) return null
  try {
    const list = JSON.parse(`${keys}`)
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : undefined
  } catch {
    return undefined
  }
}

function tell(metadata: string | null): Record<string, unknown> {
  try {
    return Object(JSON.parse(metadata ?? '{}'))
  } catch {
    return {}
  }
}
