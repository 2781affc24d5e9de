/** The list of keys. */
import { visible } from '@eaas/protocol'
import type { Key } from '@eaas/sdk'
import { useComputed, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { goTo, linkTo } from '../location.js'
import { saveCsv } from '../save.js'
import { client, isLoadingKeys, keepKey, keys, loadKeys, mayTry } from '../session.js'
import { Dialog, Field } from '../ui/dialog.js'
import { attempt, Problem } from '../ui/outcome.js'
import { type Column, isAskedFor, ListBar, Table } from '../ui/table.js'
import { Button, Id, State, say, setTo, Time } from '../ui/values.js'

const STATUSES: readonly Key['status'][] = ['active', 'disabled', 'pending_destruction', 'destroyed']
const WEEK_MS = 7 * 86_400_000

const COLUMNS: readonly Column<Key>[] = [
  { title: 'Name', width: 3, cell: ({ name }) => visible(name) },
  { title: 'State', width: 1.6, cell: ({ status }) => <State state={status} /> },
  { title: 'Version', isNumber: true, cell: ({ current_version }) => current_version },
  { title: 'Created', width: 1.5, wide: true, cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Due', width: 1.8, cell: (key) => <Due {...key} /> },
  { title: 'Id', wide: true, cell: ({ id }) => <Id id={id} label="key's id" /> },
]

export function Due({ rotation, destroy_at, status }: Pick<Key, 'rotation' | 'destroy_at' | 'status'>) {
  if (status === 'pending_destruction' && destroy_at)
    return (
      <span class="alarm">
        destroyed <Time at={destroy_at} />
      </span>
    )
  if (!rotation || status !== 'active') return <span class="soft">–</span>
  const isSoon = Date.parse(rotation.next_rotation_at) - Date.now() < WEEK_MS
  return (
    <span class={isSoon ? 'due' : ''}>
      rotated <Time at={rotation.next_rotation_at} />
    </span>
  )
}

export function KeysPage() {
  const isNew = useSignal(false)
  const error = useSignal<unknown>(undefined)
  const shown = useComputed(() => [...keys.value.values()].filter(isAskedFor))
  const isRead = useSignal(false)
  const load = async () => {
    isRead.value = false
    isRead.value = await attempt(error, loadKeys)
  }
  useEffect(() => void load(), [])
  return (
    <>
      <ListBar title="Keys" what="keys" count={countOf(shown.value.length)} states={STATUSES}>
        <Button onClick={() => saveKeys(shown.value)}>CSV</Button>
        <Button onClick={load}>Reload</Button>
        {mayTry('keys:create') && (
          <Button class="main" onClick={setTo(isNew, true)}>
            New key
          </Button>
        )}
      </ListBar>
      <Problem error={error.value} />
      {isRead.value && shown.value.length === 0 ? (
        <Empty hasKeys={keys.value.size > 0} />
      ) : (
        <Table
          label="Keys"
          rows={shown.value}
          columns={COLUMNS}
          keyOf={({ id }) => id}
          linkOf={({ id }) => linkTo(`keys/${id}`)}
        />
      )}
      {isNew.value && <NewKey onClose={setTo(isNew, false)} />}
    </>
  )
}

function countOf(shown: number): string {
  const all = keys.value.size
  const of = shown < all ? ` of ${all.toLocaleString('en')}` : ''
  return `${shown.toLocaleString('en')}${of}${isLoadingKeys.value ? ' …' : ''}`
}

function saveKeys(list: readonly Key[]): void {
  saveCsv('keys', list, {
    id: ({ id }) => id,
    name: ({ name }) => name,
    state: ({ status }) => status,
    version: ({ current_version }) => current_version,
    created: ({ created_at }) => created_at,
    'next rotation': ({ rotation }) => rotation?.next_rotation_at ?? null,
    'destroyed at': ({ destroy_at }) => destroy_at ?? null,
  })
}

function Empty({ hasKeys }: { hasKeys: boolean }) {
  if (hasKeys) return <p class="empty">No key has this name and state.</p>
  return (
    <div class="empty">
      <p>There is no key yet. Make one here, or from a program:</p>
      <pre>{`import { createClient } from '@eaas/sdk'

const eaas = createClient() // by EAAS_URL and EAAS_API_KEY
const { id: keyId } = await eaas.keys.ensure({ name: 'users' })
const envelope = await eaas.encrypt('ada@example.org', { keyId })`}</pre>
    </div>
  )
}

function NewKey({ onClose }: { onClose(): void }) {
  const name = useSignal('')
  const create = async () => {
    const key = await client().keys.create({ name: name.value })
    keepKey(key)
    say('key created')
    goTo(`keys/${key.id}`)
  }
  return (
    <Dialog title="New key" act="Create" onAct={create} onClose={onClose}>
      <Field value={name}>
        Name, which never changes; a folder before it, such as <code>customers/</code>, lets API keys be limited to it
      </Field>
    </Dialog>
  )
}
