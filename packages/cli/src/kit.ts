/** A recovery kit in place of the service. `@eaas/sdk/offline` answers the calls that decrypt. */
import { encodeBase64, findWrappedVersion, matchPath, ROUTES, type wire } from '@eaas/protocol'
import { type Fetch, isEaasError } from '@eaas/sdk'
import { type OpenedExport, openExport, type StatedUse } from '@eaas/sdk/offline'
import { openInput, readText } from './files.js'
import { CommandError, type Io, UsageError } from './io.js'

/** The longest kit that is read: that of 10,000 keys with some hundred versions each. */
const MAX_KIT_BYTES = 200_000_000

type KitKey = { opened: OpenedExport; exported: wire.KeyExport }

/** `fetch` answers as the service would; `refusal` says what the kit lacks for a failed call; `close` zeroes the keys. */
export async function openKit(io: Io, name: string) {
  const { stream } = await openInput(io, name)
  const wrong = `it is no recovery kit, or it is still encrypted: ${DECRYPT_IT}`
  const keys = readKeys(name, await readText({ name, chunks: stream }, MAX_KIT_BYTES, wrong))
  let lacking: CommandError | undefined
  const getKey = (keyId: unknown): KitKey => {
    const key = keys.get(String(keyId))
    if (key) return key
    lacking = new CommandError(`${name} has no key ${keyId}: it is of another tenant, or was made before that key`)
    throw lacking
  }
  const unwrap = async (keyId: unknown, wrapped: string, use: StatedUse): Promise<wire.Unwrapped> => {
    const { opened, exported } = getKey(keyId)
    const version = findWrappedVersion(wrapped) ?? 0
    if (version > 0 && !exported.versions.some((one) => one.version === version)) {
      const what = `key ${keyId} without version ${version}`
      lacking = new CommandError(`${name} has ${what}: it was made before that rotation`)
      throw lacking
    }
    const dek = await opened.unwrap(wrapped, use)
    try {
      return { dek: encodeBase64(dek), key_id: opened.keyId, key_version: version }
    } finally {
      dek.fill(0)
    }
  }
  const run = async ({ op, key_id, ...body }: Operation): Promise<Answer> => {
    try {
      if (op === 'unwrap') return { status: 200, body: await unwrap(key_id, String(body.wrapped_key), body) }
      lacking ??= new CommandError('a recovery kit decrypts, and does nothing else')
      throw lacking
    } catch (error) {
      if (isEaasError(error) && error.code === 'E_DECRYPTION') return problem(403, 'E_WRAPPED_KEY')
      if (error instanceof CommandError) return problem(404, 'E_NOT_FOUND')
      throw error
    }
  }
  const answer = async (method: string, url: URL, body: string | undefined): Promise<Answer> => {
    const path = url.pathname
    const is = (route: keyof typeof ROUTES) =>
      method === ROUTES[route].method ? matchPath(ROUTES[route].path, path)?.id : undefined
    if (is('listKeys') !== undefined) {
      const found = list(keys, url.searchParams.get('name'))
      if (found.count > 0) return { status: 200, body: found }
      lacking = new CommandError(`${name} has no key of the name that the model has`)
      return problem(404, 'E_NOT_FOUND')
    }
    const sent = JSON.parse(body ?? '{}') as Record<string, unknown>
    const key_id = is('unwrap')
    if (key_id !== undefined) return run({ op: 'unwrap', key_id, ...sent })
    if (is('batch') === undefined) return run({ op: path })
    const results = await Promise.all((sent.operations as Operation[]).map(run))
    return { status: 200, body: { results } }
  }
  return {
    fetch: (async (url, { method, body }) => {
      const { status, body: json } = await answer(method, new URL(url), body)
      const type = status === 200 ? 'application/json' : 'application/problem+json'
      return new Response(JSON.stringify(json), { status, headers: { 'content-type': type } })
    }) as Fetch,
    refusal: () => lacking,
    close() {
      for (const { opened } of keys.values()) opened.close()
    },
  }
}

interface Operation extends StatedUse {
  op: string
  key_id?: unknown
  wrapped_key?: unknown
}

type Answer = { status: number; body: object }

function problem(status: number, code: string): Answer {
  return { status, body: { type: 'about:blank', title: code, status, detail: 'see the kit', code } }
}

const DECRYPT_IT = 'age -d -i IDENTITY KIT | npx @eaas/cli decrypt FILE --kit -'

function readKeys(name: string, text: string): Map<string, KitKey> {
  if (/^(-----BEGIN AGE|age-encryption\.org\/)/.test(text))
    throw new UsageError(`${name}: it is still encrypted: ${DECRYPT_IT}`)
  const keys = new Map<string, KitKey>()
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    try {
      const opened = openExport(line)
      if (keys.has(opened.keyId)) throw new UsageError(`it has key ${opened.keyId} twice`)
      keys.set(opened.keyId, { opened, exported: JSON.parse(line) as wire.KeyExport })
    } catch (error) {
      if (!(isEaasError(error) || error instanceof UsageError)) throw error
      throw new UsageError(`${name}: line ${at + 1}: ${error.message}`) // it names a member, but no content
    }
  }
  if (keys.size === 0) throw new UsageError(`${name}: it is empty, and must be a recovery kit or the export of a key`)
  return keys
}

/** Lists the keys of a name as the service would. What an export lacks is filled in as for a new key. */
function list(keys: ReadonlyMap<string, KitKey>, name: string | null): wire.KeyList {
  const found = [...keys.values()].filter(({ exported }) => exported.name === name)
  return {
    keys: found.map(({ opened: { keyId: id }, exported: { algorithm, versions, exported_at } }) => {
      const current_version = Math.max(...versions.map(({ version }) => version))
      return {
        id,
        key_id: id,
        name: name ?? '',
        algorithm,
        status: 'active' as const,
        current_version,
        key_version: current_version,
        min_unwrap_version: 1,
        created_at: exported_at,
        rotation: null,
      }
    }),
    count: found.length,
  }
}
