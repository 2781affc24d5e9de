/** API keys: who may call, with which permissions, on which keys, how much. */
import { visible } from '@eaas/protocol'
import type { ApiKeyRecord, NewApiKey } from '@eaas/sdk'
import { useComputed, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { linkTo } from '../location.js'
import { saveCsv } from '../save.js'
import { apiKeys, client, loadApiKeys, mayTry, session } from '../session.js'
import { Dialog } from '../ui/dialog.js'
import { attempt, NewSecret, Problem } from '../ui/outcome.js'
import { type Column, isAskedFor, ListBar, Table } from '../ui/table.js'
import { Button, describeKeys, Facts, Id, State, say, setTo, Time } from '../ui/values.js'
import { ApiKeyForm } from './api-key-form.js'

const STATES: readonly ApiKeyRecord['status'][] = ['active', 'expired', 'revoked']
const WEEK_MS = 7 * 86_400_000

const COLUMNS: readonly Column<ApiKeyRecord>[] = [
  { title: 'Name', width: 2, cell: ({ name }) => visible(name) },
  { title: 'State', cell: ({ status }) => <State state={status} /> },
  { title: 'May', width: 2.6, wide: true, cell: ({ permissions }) => permissions.join(', ') },
  { title: 'On keys', width: 1.4, wide: true, cell: ({ keys }) => describeKeys(keys) },
  { title: 'Budget', width: 1.4, wide: true, cell: ({ budgets }) => describeBudgets(budgets) },
  {
    title: 'Last used',
    width: 1.3,
    cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : <span class="soft">never</span>),
  },
  {
    title: 'Expires',
    width: 1.2,
    cell: ({ expires_at, status }) => <Expiry at={expires_at} isActive={status === 'active'} />,
  },
]

function Expiry({ at, isActive }: { at: string | undefined; isActive: boolean }) {
  if (at === undefined) return <span class="soft">never</span>
  const isSoon = isActive && Date.parse(at) - Date.now() < WEEK_MS
  return (
    <span class={isSoon ? 'due' : ''}>
      <Time at={at} />
    </span>
  )
}

function describeBudgets(budgets: ApiKeyRecord['budgets']): string {
  if (!budgets) return 'none'
  const parts = (['unwrap', 'hash'] as const).flatMap((kind) => {
    const { per_minute, per_day } = budgets[kind] ?? {}
    return [...(per_minute ? [`${kind} ${per_minute}/min`] : []), ...(per_day ? [`${kind} ${per_day}/day`] : [])]
  })
  return [...parts, ...(budgets.when_over === 'expire' ? ['then expires'] : [])].join(', ')
}

export function ApiKeysPage() {
  const error = useSignal<unknown>(undefined)
  const isNew = useSignal(false)
  const made = useSignal<NewApiKey | undefined>(undefined)
  const shown = useComputed(() => apiKeys.value.filter(isAskedFor))
  useEffect(() => void attempt(error, loadApiKeys), [])
  if (made.value) return <NewSecret made={made.value} onStored={setTo(made, undefined)} />
  if (isNew.value)
    return (
      <ApiKeyForm
        title="New API key"
        act="Create"
        onClose={setTo(isNew, false)}
        onAct={async (fields) => {
          made.value = await client().apiKeys.create(fields)
          isNew.value = false
          await loadApiKeys()
        }}
      />
    )
  return (
    <>
      <ListBar title="API keys" what="API keys" count={shown.value.length.toLocaleString('en')} states={STATES}>
        <Button onClick={() => saveApiKeys(shown.value)}>CSV</Button>
        {mayTry('api_keys:manage') && (
          <Button class="main" onClick={setTo(isNew, true)}>
            New API key
          </Button>
        )}
      </ListBar>
      <Problem error={error.value} />
      {shown.value.length === 0 ? (
        <p class="empty">No API key has this name and state.</p>
      ) : (
        <Table
          label="API keys"
          rows={shown.value}
          columns={COLUMNS}
          keyOf={({ id }) => id}
          open={(apiKey) => <Opened apiKey={apiKey} />}
        />
      )}
    </>
  )
}

function Opened({ apiKey }: { apiKey: ApiKeyRecord }) {
  const act = useSignal<'none' | 'change' | 'revoke'>('none')
  const { id, name, prefix, permissions, status, created_at, allowed_ips, keys, budgets } = apiKey
  const close = setTo(act, 'none')
  const revoke = async () => {
    await client().apiKeys.revoke(id)
    say('revoked')
    await loadApiKeys()
  }
  if (act.value === 'change')
    return (
      <ApiKeyForm
        title={`Change ${visible(name)}`}
        act="Save"
        apiKey={apiKey}
        onClose={close}
        onAct={async (_, changes) => {
          await client().apiKeys.update(id, changes)
          close()
          say('saved')
          await loadApiKeys()
        }}
      />
    )
  return (
    <>
      <Facts
        of={{
          Id: <Id id={id} label="API key's id" />,
          'Begins with': <code>{prefix}</code>,
          May: permissions.join(', '),
          'On keys': describeKeys(keys),
          Budget: describeBudgets(budgets),
          From: allowed_ips?.join(', ') ?? 'any address',
          Created: <Time at={created_at} />,
        }}
      />
      <p class="actions">
        <a href={linkTo('log', { actor: id })}>What it did</a>
        {mayTry('api_keys:manage') && status !== 'revoked' && (
          <>
            <Button onClick={setTo(act, 'change')}>Narrow or change</Button>
            <Button class="danger" onClick={setTo(act, 'revoke')}>
              Revoke …
            </Button>
          </>
        )}
      </p>
      {act.value === 'revoke' && (
        <Dialog title={`Revoke ${name}`} act="Revoke" typed={name} isDangerous onClose={close} onAct={revoke}>
          <p>
            Its calls are refused from now on, for good.{' '}
            {session.value?.rights.own?.id === id && (
              <strong class="alarm">It is the one that you signed in with.</strong>
            )}
          </p>
        </Dialog>
      )}
    </>
  )
}

function saveApiKeys(list: readonly ApiKeyRecord[]): void {
  saveCsv('api-keys', list, {
    id: ({ id }) => id,
    name: ({ name }) => name,
    state: ({ status }) => status,
    permissions: ({ permissions }) => permissions.join(' '),
    keys: ({ keys }) => (keys?.length === 0 ? 'none' : (keys?.join(' ') ?? 'all')),
    budgets: ({ budgets }) => describeBudgets(budgets),
    created: ({ created_at }) => created_at,
    'last used': ({ last_used_at }) => last_used_at ?? null,
    expires: ({ expires_at }) => expires_at ?? null,
  })
}
