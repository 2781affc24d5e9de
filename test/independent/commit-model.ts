/**
 * A small model of how calls are decided, committed and released by two servers on one database, and a search of every order in which
 * its steps can happen. One tenant, one key, some wraps and one revocation. It shares no code with the server; each step names the part
 * of the server that it stands for. Each guard can be taken out, to see what it prevents.
 */

/** What the server does to be safe. */
export const GUARDS = {
  /** store/audit.ts appendEntries: nothing is appended unless the head is the one that the entries continue */
  comparesHead: true,
  /** audit/append/tenant-log.ts isDecidedAgain: a decision made on another policy version than the head's is made again */
  comparesPolicy: true,
  /** runner/perform.ts: the answer is released after the commit was acknowledged */
  releasesAfterCommit: true,
  /** audit/append/tenant-log.ts #drain: a commit whose outcome is unknown is a failure */
  unknownIsFailure: true,
  /** audit/append/tenant-log.ts #appendTogether: a change raises the policy version in its own transaction */
  raisesPolicy: true,
  /** store/audit.ts appendEntries: head and entries are written together */
  writesTogether: true,
  /** runner/perform.ts isCurrent: a refusal counts only if it was made on the current state */
  refusesOnCurrent: true,
}
export type Guards = typeof GUARDS

/** How much of everything there is. */
export interface Bounds {
  /** the wraps; one revocation and, if `enables`, one later re-activation come on top */
  wraps: number
  enables?: boolean
  /** how often a server may die */
  crashes: number
  /** how often an answer of the database may be lost */
  losses: number
}

type Kind = 'wrap' | 'revoke' | 'enable'
type Phase =
  | 'new'
  | 'arrived'
  | 'decided'
  | 'refusing'
  | 'sent' // the statement or transaction is on its way
  | 'half' // only without `writesTogether`: the head is written, the entry is not
  | 'executed' // committed or not; the answer is on its way
  | 'unknown' // no answer will come
  | 'acked'
  | 'refused'
  | 'failed'

interface Head {
  last: number
  /** stands for the hash: names every entry before it */
  hash: string
  policy: number
}

interface Call {
  kind: Kind
  phase: Phase
  server: number
  /** the server that sent the statement is dead: whatever it does, nobody learns of it */
  orphan: boolean
  /** the policy version that the call was decided on */
  policy: number
  /** decided in its turn, under the lock of the head */
  locked: boolean
  /** the head that the statement continues; then, the head that it wrote */
  head: Head | null
  outcome: 'committed' | 'lost race' | 'refused' | null
  /** the caller has the answer */
  released: boolean
}

interface Server {
  up: boolean
  head: Head | null
  state: { policy: number; revoked: boolean } | null
}

interface Entry {
  id: number
  after: string
  call: number
}

export interface State {
  calls: readonly Call[]
  servers: readonly Server[]
  head: Head
  revoked: boolean
  log: readonly Entry[]
  crashes: number
  losses: number
}

/** A step that can happen, in words, and where it leads. */
type Step = readonly [what: string, next: State]

const SERVERS = 2
const GENESIS: Head = { last: 0, hash: '', policy: 0 }

export function initialState({ wraps, enables = false, crashes, losses }: Bounds): State {
  const kinds: Kind[] = [...Array<Kind>(wraps).fill('wrap'), 'revoke', ...(enables ? (['enable'] as const) : [])]
  const call: Omit<Call, 'kind'> = {
    phase: 'new',
    server: 0,
    orphan: false,
    policy: 0,
    locked: false,
    head: null,
    outcome: null,
    released: false,
  }
  return {
    calls: kinds.map((kind) => ({ ...call, kind })),
    servers: Array.from({ length: SERVERS }, () => ({ up: true, head: null, state: null })),
    head: GENESIS,
    revoked: false,
    log: [],
    crashes,
    losses,
  }
}

/** Every step that can happen next. */
export function stepsFrom(state: State, guards: Guards): Step[] {
  return [...state.calls.flatMap((_, at) => stepsOfCall(state, at, guards)), ...stepsOfServers(state)]
}

function stepsOfServers(state: State): Step[] {
  return state.servers.flatMap((server, at): Step[] => {
    if (!server.up) return [[`server ${at} starts`, withServer(state, at, { up: true })]]
    if (state.crashes === 0) return []
    const calls = state.calls.map((call) => (call.server === at && isUnderWay(call) ? afterCrash(call) : call))
    const dead = withServer(state, at, { up: false, head: null, state: null })
    return [[`server ${at} dies`, { ...dead, calls, crashes: state.crashes - 1 }]]
  })
}

// What was sent may still be executed by the database, or never.
function afterCrash(call: Call): Call {
  return call.phase === 'sent' || call.phase === 'half'
    ? { ...call, orphan: true }
    : { ...call, phase: 'failed', orphan: true }
}

function isUnderWay({ phase, orphan }: Call): boolean {
  return !orphan && !['new', 'acked', 'refused', 'failed'].includes(phase)
}

function stepsOfCall(state: State, at: number, guards: Guards): Step[] {
  const call = state.calls[at] as Call
  const server = state.servers[call.server] as Server
  const name = `${call.kind} ${at}`
  const on = `on server ${call.server}`
  switch (call.phase) {
    case 'new':
      return state.servers.flatMap(({ up }, to): Step[] =>
        // Servers are alike: the first call may as well go to server 0. A re-activation follows an acknowledged revocation.
        !up || (at === 0 && to > 0) || (call.kind === 'enable' && !isRevocationAcked(state))
          ? []
          : [[`${name} arrives at server ${to}`, withCall(state, at, { phase: 'arrived', server: to })]],
      )
    case 'arrived':
      if (!server.state) {
        const read = { policy: state.head.policy, revoked: state.revoked }
        return [[`${name} reads the state ${on}`, withServer(state, call.server, { state: read })]]
      }
      return [decide(state, at, server.state)]
    case 'refusing': {
      const isCurrent = !guards.refusesOnCurrent || call.policy === state.head.policy
      if (isCurrent) return [[`${name} is refused ${on}`, withCall(state, at, { phase: 'refused' })]]
      const renewed = withServer(state, call.server, { state: null })
      return [[`${name} finds its state out of date ${on}`, withCall(renewed, at, { phase: 'arrived' })]]
    }
    case 'decided':
      return send(state, at, guards)
    case 'sent':
      return [...execute(state, at, guards), ...loseConnection(state, at)]
    case 'half': {
      const entry = { id: (call.head as Head).last, after: (call.head as Head).hash, call: at }
      const written = { ...state, log: [...state.log, entry] }
      return [[`${name} writes its entry`, withCall(written, at, finished(call, 'committed', state.head))]]
    }
    case 'executed':
      return [...answer(state, at), ...loseConnection(state, at)]
    case 'unknown': {
      const next = withServer(state, call.server, { head: null })
      const end = guards.unknownIsFailure
        ? ({ phase: 'failed' } as const)
        : ({ phase: 'acked', released: true } as const)
      return [[`${name} gets no answer from the database ${on}`, withCall(next, at, end)]]
    }
    default:
      return []
  }
}

function isRevocationAcked({ calls }: State): boolean {
  return calls.some(({ kind, phase }) => kind === 'revoke' && phase === 'acked')
}

function decide(state: State, at: number, { policy, revoked }: { policy: number; revoked: boolean }): Step {
  const call = state.calls[at] as Call
  const phase = call.kind === 'wrap' && revoked ? 'refusing' : 'decided'
  const what = `${call.kind} ${at} decides on policy version ${policy}, ${revoked ? 'revoked' : 'active'}`
  return [what, withCall(state, at, { phase, policy })]
}

// One batch of a tenant at a time; here a batch is one call.
function send(state: State, at: number, guards: Guards): Step[] {
  const call = state.calls[at] as Call
  const server = state.servers[call.server] as Server
  const isBusy = state.calls.some(
    (other) =>
      other.server === call.server && !other.orphan && ['sent', 'half', 'executed', 'unknown'].includes(other.phase),
  )
  if (isBusy) return []
  const released = !guards.releasesAfterCommit
  const name = `${call.kind} ${at}`
  if (call.kind !== 'wrap' || call.locked)
    return [[`${name} locks the head`, withCall(state, at, { phase: 'sent', locked: true, released })]]
  if (!server.head || call.policy > server.head.policy)
    return [[`server ${call.server} reads the head`, withServer(state, call.server, { head: state.head })]]
  if (guards.comparesPolicy && call.policy !== server.head.policy)
    return [[`${name} will decide again in its turn`, withCall(state, at, { locked: true })]]
  return [[`${name} sends its entry`, withCall(state, at, { phase: 'sent', head: server.head, released })]]
}

/** What the database does: the statement of a compare-and-swap, or a transaction under the lock of the head. */
function execute(state: State, at: number, guards: Guards): Step[] {
  const call = state.calls[at] as Call
  const name = `${call.kind} ${at}`
  const isStale = !call.locked && (call.head?.last !== state.head.last || call.head.hash !== state.head.hash)
  if (isStale && guards.comparesHead)
    return [[`${name} finds another head`, withCall(state, at, finished(call, 'lost race', null))]]
  // Under the lock a wrap decides on the state that is there now.
  if (call.kind === 'wrap' && call.locked && guards.comparesPolicy && state.revoked)
    return [[`${name} is refused under the lock`, withCall(state, at, finished(call, 'refused', null))]]
  const previous = call.locked ? state.head : (call.head as Head)
  const isChange = call.kind !== 'wrap'
  const policy = previous.policy + (isChange && guards.raisesPolicy ? 1 : 0)
  const head = { last: previous.last + 1, hash: `${previous.hash}.${at}`, policy }
  const moved = { ...state, head, revoked: isChange ? call.kind === 'revoke' : state.revoked }
  const entry = { id: head.last, after: previous.hash, call: at }
  if (!guards.writesTogether)
    return [[`${name} writes the head`, withCall(moved, at, { phase: 'half', head: { ...head, hash: previous.hash } })]]
  const written = { ...moved, log: [...state.log, entry] }
  return [[`${name} commits entry ${entry.id}`, withCall(written, at, finished(call, 'committed', head))]]
}

function finished(call: Call, outcome: Call['outcome'], head: Head | null): Partial<Call> {
  return call.orphan ? { phase: 'failed', outcome, head } : { phase: 'executed', outcome, head }
}

// The statement may have been executed or not: the connection can end before and after.
function loseConnection(state: State, at: number): Step[] {
  const call = state.calls[at] as Call
  if (state.losses === 0 || call.orphan) return []
  const lost = { ...state, losses: state.losses - 1 }
  return [[`the answer to ${call.kind} ${at} is lost`, withCall(lost, at, { phase: 'unknown' })]]
}

function answer(state: State, at: number): Step[] {
  const call = state.calls[at] as Call
  const name = `${call.kind} ${at}`
  if (call.outcome === 'lost race') {
    const next = withServer(state, call.server, { head: null })
    return [
      [`${name} lost the race`, withCall(next, at, { phase: 'decided', locked: true, head: null, outcome: null })],
    ]
  }
  if (call.outcome === 'refused') {
    const next = withServer(state, call.server, { head: null, state: null })
    return [[`${name} is told that it was refused`, withCall(next, at, { phase: 'refused' })]]
  }
  const known = { head: call.head }
  const own = call.kind === 'wrap' ? {} : { state: { policy: call.head?.policy ?? 0, revoked: call.kind === 'revoke' } }
  const next = withServer(state, call.server, { ...known, ...own })
  return [[`${name} is acknowledged`, withCall(next, at, { phase: 'acked', released: true })]]
}

function withCall(state: State, at: number, changes: Partial<Call>): State {
  return { ...state, calls: state.calls.map((call, each) => (each === at ? { ...call, ...changes } : call)) }
}

function withServer(state: State, at: number, changes: Partial<Server>): State {
  return { ...state, servers: state.servers.map((server, each) => (each === at ? { ...server, ...changes } : server)) }
}

/** What must hold in every state that can be reached; undefined if all of it does. */
function findViolation({ calls, log, head }: State): string | undefined {
  for (const [at, { released, phase }] of calls.entries()) {
    if ((released || phase === 'acked') && !log.some(({ call }) => call === at)) return 'released without an entry'
  }
  let hash = GENESIS.hash
  let isRevoked = false
  for (const [at, { id, after, call }] of log.entries()) {
    if (id !== at + 1) return 'ids with a gap, or twice'
    if (after !== hash) return 'a broken chain'
    hash = `${hash}.${call}`
    const kind = calls[call]?.kind
    if (kind === 'wrap' && isRevoked) return 'a use after the revocation'
    if (kind !== 'wrap') isRevoked = kind === 'revoke'
  }
  if (head.last !== log.length || head.hash !== hash) return 'a head that is not the end of the log'
  return undefined
}

/** A refusal is wrong if the key was active from before the call until it was refused. Judged at the step, because it leaves no trace. */
function findWrongRefusal(before: State, after: State): string | undefined {
  const isWrong = after.calls.some(({ kind, phase }, at) => {
    const was = before.calls[at]?.phase
    return kind === 'wrap' && phase === 'refused' && was === 'refusing' && !before.revoked
  })
  return isWrong ? 'refused although it was allowed' : undefined
}

export interface Search {
  states: number
  /** the first state in which something is wrong, with the shortest way to it */
  violation: { what: string; way: string[] } | undefined
  /** states in which nothing can happen any more */
  ends: State[]
}

/** Searches all states, nearest first; stops at the first violation. `observe` is called with each state. */
export function search(bounds: Bounds, guards: Guards, observe?: (state: State) => void): Search {
  const first = initialState(bounds)
  const cameFrom = new Map<string, { from: string; what: string } | undefined>([[keyOf(first), undefined]])
  const ends: State[] = []
  let layer: State[] = [first]
  const found = (what: string, from: string, last: string[]): Search => {
    const way = [...last]
    for (let at = cameFrom.get(from), key = from; at; key = at.from, at = cameFrom.get(key)) way.unshift(at.what)
    return { states: cameFrom.size, violation: { what, way }, ends }
  }
  while (layer.length > 0) {
    const next: State[] = []
    for (const state of layer) {
      const key = keyOf(state)
      const violation = findViolation(state)
      if (violation) return found(violation, key, [])
      observe?.(state)
      const steps = stepsFrom(state, guards)
      if (steps.length === 0) ends.push(state)
      for (const [what, reached] of steps) {
        const wrong = findWrongRefusal(state, reached)
        if (wrong) return found(wrong, key, [what])
        const reachedKey = keyOf(reached)
        if (cameFrom.has(reachedKey)) continue
        cameFrom.set(reachedKey, { from: key, what })
        next.push(reached)
      }
    }
    layer = next
  }
  return { states: cameFrom.size, violation: undefined, ends }
}

function keyOf(state: State): string {
  return JSON.stringify(state)
}
