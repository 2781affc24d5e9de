/** For operators: lists, creates, changes, suspends and resumes tenants. */
import { visible } from '@eaas/protocol'
import { type Signal, useComputed, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import {
  createTenant,
  listTenants,
  type NewTenant,
  type OperatorsTenant,
  resumeTenant,
  suspendTenant,
  updateTenant,
} from '../operator.js'
import { saveCsv } from '../save.js'
import { Dialog, Field, findChanges } from '../ui/dialog.js'
import { attempt, NewSecret, Problem } from '../ui/outcome.js'
import { type Column, isAskedFor, ListBar, Table } from '../ui/table.js'
import { Button, checkInto, Facts, Id, State, say, setTo, Time } from '../ui/values.js'

const STATES: readonly OperatorsTenant['status'][] = ['active', 'suspended', 'deleted', 'moving', 'moved']

const COLUMNS: readonly Column<OperatorsTenant>[] = [
  { title: 'Name', width: 2.5, cell: ({ name }) => visible(name) },
  { title: 'State', cell: ({ status }) => <State state={status} /> },
  { title: 'Server mode', wide: true, cell: ({ envelope_only }) => describeMode(envelope_only) },
  { title: 'Quota', isNumber: true, wide: true, cell: (tenant) => describeQuota(tenant.monthly_encrypt_quota) },
  { title: 'Created', width: 1.3, cell: ({ created_at }) => <Time at={created_at} /> },
]

function describeMode(isEnvelopeOnly: boolean) {
  return isEnvelopeOnly ? <span class="soft">closed</span> : <span class="due">open</span>
}

function describeQuota(quota: number | null): string {
  return quota === null ? 'none' : quota.toLocaleString('en')
}

export function TenantsPage() {
  const error = useSignal<unknown>(undefined)
  const tenants = useSignal<readonly OperatorsTenant[] | undefined>(undefined)
  const tampered = useSignal<readonly string[]>([])
  const isNew = useSignal(false)
  const made = useSignal<NewTenant | undefined>(undefined)
  const shown = useComputed(() =>
    (tenants.value ?? []).filter(({ tenant_id: id, name, status }) => isAskedFor({ id, name, status })),
  )
  const lists = useRef(0)
  // Of concurrent requests for the list, the latest one counts.
  const load = () =>
    attempt(error, async () => {
      lists.current += 1
      const asked = lists.current
      const listed = await listTenants()
      if (asked !== lists.current) return
      tenants.value = listed.tenants
      tampered.value = listed.tampered
    })
  useEffect(() => void load(), [])
  if (made.value) {
    const { name, api_key } = made.value
    const first = { name: `${api_key.name}, the first API key of ${name}`, secret: api_key.secret }
    return <NewSecret made={first} onStored={setTo(made, undefined)} />
  }
  return (
    <>
      <ListBar
        title="Tenants"
        what="tenants"
        count={tenants.value ? shown.value.length.toLocaleString('en') : '…'}
        states={STATES}
      >
        <Button onClick={() => saveTenants(shown.value)}>CSV</Button>
        <Button onClick={load}>Reload</Button>
        <Button class="main" onClick={setTo(isNew, true)}>
          New tenant
        </Button>
      </ListBar>
      <Problem error={error.value} />
      {tampered.value.length > 0 && (
        <p class="problem" role="alert">
          The rows of {tampered.value.join(', ')} were changed in the database. Run <code>eaas doctor</code>.
        </p>
      )}
      {tenants.value && shown.value.length === 0 && (
        <p class="empty">
          {tenants.value.length > 0 ? 'No tenant has this name and state.' : 'There is no tenant yet.'}
        </p>
      )}
      {shown.value.length > 0 && (
        <Table
          label="Tenants"
          rows={shown.value}
          columns={COLUMNS}
          keyOf={({ tenant_id }) => tenant_id}
          open={(tenant) => <Opened tenant={tenant} onChanged={load} />}
        />
      )}
      {isNew.value && (
        <NewTenantDialog
          onMade={(tenant) => {
            made.value = tenant
            void load()
          }}
          onClose={setTo(isNew, false)}
        />
      )}
    </>
  )
}

type Act = 'settings' | 'suspend' | 'resume'

function Opened({ tenant, onChanged }: { tenant: OperatorsTenant; onChanged(): Promise<unknown> }) {
  const act = useSignal<Act | undefined>(undefined)
  const { tenant_id, envelope_only, monthly_encrypt_quota, status } = tenant
  const button = (name: Act, text: string, tone = '') => (
    <Button class={tone} onClick={setTo(act, name)}>
      {text}
    </Button>
  )
  return (
    <>
      <Facts
        of={{
          Id: <Id id={tenant_id} label="tenant's id" />,
          'Server mode': describeMode(envelope_only),
          'Values encrypted a month, at most': describeQuota(monthly_encrypt_quota),
        }}
      />
      {status !== 'deleted' && (
        <p class="actions">
          {button('settings', 'Settings …')}
          {status === 'active' ? button('suspend', 'Suspend …', 'danger') : button('resume', 'Resume …')}
        </p>
      )}
      {act.value && <ActDialog act={act.value} tenant={tenant} onClose={setTo(act, undefined)} onDone={onChanged} />}
    </>
  )
}

interface ActDialogProps {
  act: Act
  tenant: OperatorsTenant
  onClose(): void
  onDone(): Promise<unknown>
}

function ActDialog({ act, tenant: { tenant_id, name, ...settings }, onClose, onDone }: ActDialogProps) {
  const reason = useSignal('')
  const isOpen = useSignal(!settings.envelope_only)
  const quota = useSignal(String(settings.monthly_encrypt_quota ?? ''))
  const readSettings = () => ({
    envelope_only: !isOpen.value,
    monthly_encrypt_quota: quota.value === '' ? null : Number(quota.value),
  })
  const { current: shown } = useRef(readSettings())
  const done = async (text: string, call: Promise<unknown>) => {
    await call
    say(text)
    await onDone()
  }
  if (act === 'settings') {
    const save = () => done('saved', updateTenant(tenant_id, findChanges(shown, readSettings())))
    return (
      <Dialog title={`Settings of ${name}`} act="Save" onClose={onClose} onAct={save}>
        <ServerMode isOpen={isOpen} />
        <Field value={quota} range={{ min: 0 }}>
          Values that it may encrypt a month in server mode, empty for any number
        </Field>
      </Dialog>
    )
  }
  const why = <Field value={reason}>Reason, for the logs of the tenant and of the installation</Field>
  if (act === 'resume') {
    const resume = () => done('resumed', resumeTenant(tenant_id, reason.value))
    return (
      <Dialog title={`Resume ${name}`} act="Resume" onClose={onClose} onAct={resume}>
        <p>Its calls are answered again.</p>
        {why}
      </Dialog>
    )
  }
  const suspend = () => done('suspended', suspendTenant(tenant_id, reason.value))
  return (
    <Dialog title={`Suspend ${name}`} act="Suspend" typed={name} isDangerous onClose={onClose} onAct={suspend}>
      <p>All of its calls are refused until it is resumed. Nothing is deleted.</p>
      {why}
    </Dialog>
  )
}

function ServerMode({ isOpen }: { isOpen: Signal<boolean> }) {
  return (
    <label>
      <input type="checkbox" checked={isOpen.value} onChange={checkInto(isOpen)} /> Server mode: the server may see
      plaintext
    </label>
  )
}

function NewTenantDialog({ onMade, onClose }: { onMade(tenant: NewTenant): void; onClose(): void }) {
  const name = useSignal('')
  const isOpen = useSignal(false)
  const create = async () => onMade(await createTenant({ name: name.value, envelope_only: !isOpen.value }))
  return (
    <Dialog title="New tenant" act="Create" onAct={create} onClose={onClose}>
      <Field value={name}>Name</Field>
      <ServerMode isOpen={isOpen} />
    </Dialog>
  )
}

function saveTenants(list: readonly OperatorsTenant[]): void {
  saveCsv('tenants', list, {
    id: ({ tenant_id }) => tenant_id,
    name: ({ name }) => name,
    state: ({ status }) => status,
    'server mode': ({ envelope_only }) => (envelope_only ? 'closed' : 'open'),
    'monthly quota': ({ monthly_encrypt_quota }) => monthly_encrypt_quota,
    created: ({ created_at }) => created_at,
  })
}
