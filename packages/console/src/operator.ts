// The signed-in operator, and the calls below /admin/v1, which the SDK does not have. Only the memory of this module
// has the API key.
import { INSTALLATION_ID } from '@eaas/protocol'
import { ApiError } from '@eaas/sdk'
import { signal } from '@preact/signals'

/** The beginning of operators' API keys, with the installation's id. */
const OPERATORS_KEY = `eaas_sk_${INSTALLATION_ID.replaceAll('-', '')}_`
const TIMEOUT_MS = 30_000
const PAGE_TENANTS = 1_000 // in one answer

export interface OperatorsTenant {
  tenant_id: string
  name: string
  envelope_only: boolean
  created_at: string
  monthly_encrypt_quota: number | null
  status: 'active' | 'suspended' | 'deleted' | 'moving' | 'moved'
}

export type NewTenant = { tenant_id: string; name: string; api_key: { name: string; secret: string } }

export interface Alarm {
  tenant_id: string | null // null for the installation's own log
  reason: string
  refused: string
  commands: string[]
  page: string
}

export interface Status {
  version: string
  health: Record<string, string>
  invalid_logs: number | null
  ages_in_seconds: Record<'anchor' | 'checkpoint' | 'verification' | 'purge' | 'backup', number | null> & {
    witnesses: { name: string; cosignature: number; contradicted: boolean }[]
  }
}

type Send = <Answer>(path: string, change?: { method: 'POST' | 'PATCH'; body: object }) => Promise<Answer>

const sender = signal<Send | undefined>(undefined)

export function isOperator(): boolean {
  return sender.value !== undefined
}

export function isOperatorsKey(apiKey: string): boolean {
  return apiKey.startsWith(OPERATORS_KEY)
}

/** @throws ApiError if the server does not know the API key, or serves no operators */
export async function signInAsOperator(baseUrl: string, apiKey: string): Promise<void> {
  if (!isSecureContext)
    throw new Error('An API key is sent over HTTPS, or on the machine itself. Open this page over HTTPS.')
  const send: Send = (path, change) => call({ baseUrl, apiKey }, path, change)
  // The only call that writes no entry. An API key without its permission is still an operator's.
  await send('/status').catch((error: unknown) => {
    if (!(error instanceof ApiError && error.problem === 'E_MISSING_PERMISSION')) throw error
  })
  sender.value = send
}

export function signOutOperator(): void {
  sender.value = undefined
}

/** Reads all tenants; `tampered` has the ids of tampered rows, which also count as rows of a page. */
export async function listTenants(): Promise<{ tenants: OperatorsTenant[]; tampered: string[] }> {
  const tenants: OperatorsTenant[] = []
  const tampered: string[] = []
  for (let offset = 0; ; offset += PAGE_TENANTS) {
    const page = await operate<{ tenants: OperatorsTenant[]; count: number; tampered: string[] }>(
      `/tenants?limit=${PAGE_TENANTS}&offset=${offset}`,
    )
    tenants.push(...page.tenants)
    tampered.push(...page.tampered)
    if (page.tenants.length + page.tampered.length < PAGE_TENANTS) return { tenants, tampered }
  }
}

export const createTenant = (fields: { name: string; envelope_only: boolean }) =>
  operate<NewTenant>('/tenants', { method: 'POST', body: fields })

export const updateTenant = (
  tenant_id: string,
  changes: { envelope_only?: boolean; monthly_encrypt_quota?: number | null },
) => operate<OperatorsTenant>(`/tenants/${tenant_id}`, { method: 'PATCH', body: changes })

export const suspendTenant = (tenant_id: string, reason: string) =>
  operate<OperatorsTenant>(`/tenants/${tenant_id}/suspend`, { method: 'POST', body: { reason } })

export const resumeTenant = (tenant_id: string, reason: string) =>
  operate<OperatorsTenant>(`/tenants/${tenant_id}/resume`, { method: 'POST', body: { reason } })

export const listAlarms = async () => (await operate<{ alarms: Alarm[] }>('/alarms')).alarms

export const readStatus = () => operate<Status>('/status')

function operate<Answer>(...of: Parameters<Send>): Promise<Answer> {
  if (!sender.value) throw new Error('no operator is signed in')
  return sender.value<Answer>(...of)
}

async function call<Answer>(
  { baseUrl, apiKey }: { baseUrl: string; apiKey: string },
  path: string,
  { method, body }: { method: string; body?: object } = { method: 'GET' },
): Promise<Answer> {
  const response = await fetch(`${baseUrl.replace(/\/$/, '')}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${apiKey}`, ...(body && { 'content-type': 'application/json' }) },
    body: body ? JSON.stringify(body) : null,
    redirect: 'error',
    credentials: 'omit',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (response.ok) return response.json()
  throw await readProblem(response, `${method} /admin/v1${path}`)
}

async function readProblem(response: Response, call: string): Promise<Error> {
  if (!response.headers.get('content-type')?.startsWith('application/problem+json'))
    return new Error(`${call}: ${response.status}, and not an answer of EaaS. Is the address behind a proxy?`)
  const { title, detail, code } = await response.json()
  const requestId = response.headers.get('x-request-id') ?? undefined
  const problem = { httpStatus: response.status, title, detail, problem: code, requestId }
  return new ApiError(call, problem, HINTS[code] ?? '', false)
}

const HINTS: Readonly<Record<string, string>> = {
  E_UNAUTHORIZED: 'Check the API key, its expiry and its addresses.',
  E_ROUTE_NOT_FOUND: 'Start the server with EAAS_OPERATOR_API=on, and keep a proxy from answering /admin in its place.',
  E_MISSING_PERMISSION: 'Make an API key that may do this: eaas operator-key create --help.',
  E_NAME_TAKEN: 'Take another name, or look for the tenant in the list.',
}
