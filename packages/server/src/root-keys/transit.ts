/** A key of the Transit engine of OpenBao or Vault. Used only at starts and rotations, so each call logs in anew. */
import { isLoopback } from '@eaas/audit/node'
import { decodeBase64, encodeBase64, encodeUtf8, isBase64 } from '@eaas/protocol'
import * as z from 'zod/mini'
import type { TransitLogin } from '../core/config.js'
import { RootKeyError, type RootKeyProvider } from '../core/crypto/key-hierarchy.js'
import { readSecret } from './local-key.js'

const PATIENCE_MS = 30_000
const LOGIN = 'auth/approle/login'
/** The AAD of `localProvider`, so that a ciphertext for another purpose does not unwrap. */
const ASSOCIATED_DATA = encodeBase64(encodeUtf8('eaas/root-key/v1'))

const TOKEN = z.object({ auth: z.object({ client_token: z.string() }) })
const WRAPPED = z.object({ data: z.object({ ciphertext: z.string() }) })
const OPENED = z.object({ data: z.object({ plaintext: z.string().check(z.refine((text) => isBase64(text))) }) })

/** The provider of a key by the address of its API: `https://host:8200/v1/<mount>/keys/<name>`. @throws RootKeyError */
export function transitProvider(address: string, { tokenFile, appRoleFile }: TransitLogin): RootKeyProvider {
  if (!URL.canParse(address)) throw badAddress()
  const { origin, protocol, hostname, pathname, search, username, password } = new URL(address)
  const [, api, mount, name] = /^(\/(?:.+\/)?v1)\/(.+)\/keys\/([^/]+)$/.exec(pathname) ?? []
  if (api === undefined || name === undefined || search !== '' || username !== '' || password !== '') throw badAddress()
  if (protocol !== 'https:' && !isLoopback(hostname))
    throw new RootKeyError('The address of the Transit key must begin with https: the store key is sent to it.')
  if ((tokenFile === undefined) === (appRoleFile === undefined))
    throw new RootKeyError(
      'Set EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE or EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE, and only one of them.',
    )

  const call = async <T>(path: string, schema: z.ZodMiniType<T>, body: object, token?: string): Promise<T> => {
    const fail = (what: string) => new RootKeyError(`The Transit key at ${address}: ${path} ${what}.`)
    try {
      const response = await fetch(`${origin}${api}/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(token !== undefined && { 'x-vault-token': token }) },
        body: JSON.stringify(body),
        redirect: 'error', // a redirect would show the token to another server
        signal: AbortSignal.timeout(PATIENCE_MS),
      })
      if (!response.ok) throw fail(`was answered with ${response.status}. ${adviceFor(path, response.status)}`)
      const answer = schema.safeParse(await response.json())
      if (!answer.success) throw fail(`was answered with something else. ${adviceFor(path, response.status)}`)
      return answer.data
    } catch (error) {
      if (error instanceof RootKeyError) throw error
      const { name: kind, cause } = error as Error
      const code = (cause as NodeJS.ErrnoException | undefined)?.code
      throw fail(`had no answer (${code ?? kind})`)
    }
  }

  const logIn = async (): Promise<string> => {
    if (tokenFile !== undefined) return readLogin(tokenFile)
    const [role_id = '', secret_id = ''] = (await readLogin(appRoleFile as string)).split(/\s+/)
    const { auth } = await call(LOGIN, TOKEN, { role_id, secret_id })
    return auth.client_token
  }

  return {
    kind: 'transit',
    name: address,
    async wrap(bytes) {
      const body = { plaintext: encodeBase64(bytes), associated_data: ASSOCIATED_DATA }
      const { data } = await call(`${mount}/encrypt/${name}`, WRAPPED, body, await logIn())
      return encodeUtf8(data.ciphertext)
    },
    async unwrap(wrapped) {
      const body = { ciphertext: Buffer.from(wrapped).toString(), associated_data: ASSOCIATED_DATA }
      const { data } = await call(`${mount}/decrypt/${name}`, OPENED, body, await logIn())
      return decodeBase64(data.plaintext)
    },
  }
}

function badAddress(): RootKeyError {
  return new RootKeyError(
    'The address of a Transit key must be that of its API, such as https://bao.example.org:8200/v1/transit/keys/eaas.',
  )
}

function adviceFor(path: string, status: number): string {
  if (status < 300) return 'The address must lead to OpenBao or Vault itself: see what else answers there'
  if (path === LOGIN && status < 500)
    return 'The file of the AppRole must have its role_id and its secret_id, a line each'
  if (status === 403) return 'Its token may be used up, or its policy lacks update on encrypt and decrypt of the key'
  if (status === 400)
    return 'Either the store keys were wrapped by another key, or the key is not of a kind such as aes256-gcm96'
  return 'See the log of that server'
}

const readLogin = (path: string) => readSecret(path, `The login for Transit, ${path},`)
