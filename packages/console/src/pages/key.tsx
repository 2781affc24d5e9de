/** One key: its versions, who used it, and what can be done with it. */
import { counted, visible } from '@eaas/protocol'
import type { Entry, KeyWithVersions } from '@eaas/sdk'
import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { linkTo } from '../location.js'
import { client, keepKey, mayTry } from '../session.js'
import { Dialog, Field } from '../ui/dialog.js'
import { attempt, Problem } from '../ui/outcome.js'
import { type Column, PlainTable } from '../ui/table.js'
import { Button, Facts, Id, Named, State, say, setTo, Time } from '../ui/values.js'
import { Due } from './keys.js'

const MONTH_MS = 30 * 86_400_000
const READ_ENTRIES = 500 // entries of the last 30 days, read to find out who used the key
const PAGE_ENTRIES = 100

type Use = { users: ReadonlyMap<string, number>; read: number; total: number }

const VERSION_COLUMNS: readonly Column<KeyWithVersions['versions'][number]>[] = [
  { title: 'Version', isNumber: true, cell: ({ version }) => version },
  { title: 'State', cell: ({ status }) => <State state={status} /> },
  { title: 'Made', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'DEKs wrapped', isNumber: true, cell: ({ wraps }) => wraps.toLocaleString('en') },
  { title: 'Last opened', cell: ({ last_unwrapped_at }) => last_unwrapped_at?.slice(0, 10) ?? 'never' },
]

type Act = 'rotate' | 'disable' | 'enable' | 'destroy' | 'cancel' | 'rotation'

/** The page of one key. Another key gets another component, which a late answer for this one cannot reach. */
export function KeyPage({ id }: { id: string }) {
  const key = useSignal<KeyWithVersions | undefined>(undefined)
  const use = useSignal<Use | undefined>(undefined)
  const error = useSignal<unknown>(undefined)
  const act = useSignal<Act | undefined>(undefined)
  const load = () => attempt(error, () => readInto(id, key, use))
  useEffect(() => void load(), [])
  const close = () => {
    act.value = undefined
    void load()
  }
  if (!key.value) return <Problem error={error.value} />
  const { name, status, versions, created_at, updated_at, rotation, min_unwrap_version } = key.value
  const newest = versions.at(-1)
  return (
    <>
      <div class="bar">
        <h1>{visible(name)}</h1>
        <State state={status} />
        <Id id={id} label="key's id" />
        <span class="tools">
          <Acts status={status} act={act} />
        </span>
      </div>
      <Problem error={error.value} />
      <Facts
        of={{
          Created: <Time at={created_at} />,
          'Last rotated': newest && newest.version > 1 ? <Time at={newest.created_at} /> : 'never',
          Rotation: rotation ? `every ${counted(rotation.interval_days, 'day')}` : 'by hand, and after many wraps',
          Due: <Due {...key.value} />,
          'Opens from version': min_unwrap_version,
          Changed: <Time at={updated_at} />,
        }}
      />
      <h2>Versions</h2>
      <PlainTable
        label="Versions"
        rows={versions.toReversed()}
        columns={VERSION_COLUMNS}
        keyOf={({ version }) => version}
      />
      {mayTry('audit:read') && (
        <>
          <h2>Used in the last 30 days</h2>
          {use.value && <Users use={use.value} />}
          <p>
            <a href={linkTo('log', { key: id })}>All entries of this key</a>
          </p>
        </>
      )}
      {act.value && (
        <ActDialog act={act.value} keyRead={key.value} use={use.value ?? whyUnknown(error)} onClose={close} />
      )}
    </>
  )
}

async function readInto(id: string, key: Signal<KeyWithVersions | undefined>, use: Signal<Use | undefined>) {
  const { keys } = client()
  key.value = await keys.get(id)
  keepKey(key.value)
  if (mayTry('audit:read')) use.value = await readUse(id)
}

/** Finds out from the newest entries who wrapped and unwrapped. */
async function readUse(key_id: string): Promise<Use> {
  const date_from = new Date(Date.now() - MONTH_MS)
  const users = new Map<string, number>()
  let read = 0
  let total = 0
  while (read < READ_ENTRIES) {
    const page = await client().audit.list({ key_id, date_from, limit: PAGE_ENTRIES, offset: read })
    for (const { actor } of page.logs.filter(isUse)) users.set(actor, (users.get(actor) ?? 0) + 1)
    read += page.logs.length
    total = page.total
    if (page.logs.length < PAGE_ENTRIES) break
  }
  return { users, read, total }
}

function isUse({ action }: Entry): boolean {
  return ['key.wrap', 'key.unwrap', 'key.index_secret', 'encrypt', 'decrypt', 'key.export'].includes(action)
}

function Users({ use: { users, read, total } }: { use: Use }) {
  return (
    <>
      {users.size === 0 ? (
        <p class="soft">Nobody wrapped or opened anything with it.</p>
      ) : (
        <ul class="users">
          {[...users]
            .sort(([, a], [, b]) => b - a)
            .map(([actor, count]) => (
              <li key={actor}>
                <Named id={actor} />: {count.toLocaleString('en')}
              </li>
            ))}
        </ul>
      )}
      <p class="soft">
        Entries read: {read < total ? `the newest ${read} of ` : 'all '}
        {total.toLocaleString('en')}. Hashes write no entry. An entry opens a data key, which may open many records.
      </p>
    </>
  )
}

function Acts({ status, act: chosen }: { status: KeyWithVersions['status']; act: Signal<Act | undefined> }) {
  const acts: [Act, string, boolean][] = [
    ['rotate', 'Rotate', status === 'active' && mayTry('keys:rotate')],
    ['rotation', 'Schedule', (status === 'active' || status === 'disabled') && mayTry('keys:rotate')],
    ['disable', 'Disable', status === 'active' && mayTry('keys:disable')],
    ['enable', 'Enable', status === 'disabled' && mayTry('keys:disable')],
    ['destroy', 'Destroy …', status === 'disabled' && mayTry('keys:destroy')],
    ['cancel', 'Cancel destruction', status === 'pending_destruction' && mayTry('keys:destroy')],
  ]
  return (
    <>
      {acts.map(
        ([act, title, isShown]) =>
          isShown && (
            <Button key={act} class={act === 'destroy' ? 'danger' : ''} onClick={setTo(chosen, act)}>
              {title}
            </Button>
          ),
      )}
    </>
  )
}

interface ActDialogProps {
  act: Act
  keyRead: KeyWithVersions
  use: Use | string // a text says why it is unknown
  onClose(): void
}

function ActDialog({ act, keyRead: { id, name, current_version, rotation, versions }, use, onClose }: ActDialogProps) {
  const { keys } = client()
  const days = useSignal(String(rotation?.interval_days ?? ''))
  const done = (text: string, call: Promise<unknown>) => call.then(() => say(text))
  if (act === 'rotate')
    return (
      <Dialog title={`Rotate ${name}`} act="Rotate" onClose={onClose} onAct={() => done('rotated', keys.rotate(id))}>
        <p>
          Version {current_version + 1} wraps what is new.{' '}
          {current_version === 1
            ? 'Version 1 still opens what it'
            : `Versions 1 to ${current_version} still open what they`}{' '}
          wrapped: no data is lost, and nothing has to be encrypted again.
        </p>
      </Dialog>
    )
  if (act === 'rotation') {
    const set = () => done('schedule set', keys.setRotation(id, days.value === '' ? null : Number(days.value)))
    return (
      <Dialog title={`Schedule of ${name}`} act="Set" onClose={onClose} onAct={set}>
        <Field value={days} range={{ min: 1, max: 3_650 }}>
          Days between rotations by the server, empty for none
        </Field>
      </Dialog>
    )
  }
  if (act === 'disable') {
    const disable = () => done('disabled', keys.disable(id))
    return (
      <Dialog title={`Disable ${name}`} act="Disable" onClose={onClose} onAct={disable}>
        <p>It no longer wraps, encrypts or hashes, but still opens what it wrapped. It can be enabled again.</p>
        <UsedBy use={use} />
      </Dialog>
    )
  }
  if (act === 'enable')
    return (
      <Dialog title={`Enable ${name}`} act="Enable" onClose={onClose} onAct={() => done('enabled', keys.enable(id))}>
        <p>It wraps, encrypts and hashes again.</p>
      </Dialog>
    )
  if (act === 'cancel') {
    const cancel = () => done('destruction cancelled', keys.cancelDestruction(id))
    return (
      <Dialog title={`Keep ${name}`} act="Cancel destruction" onClose={onClose} onAct={cancel}>
        <p>The key stays, disabled: it again opens what it wrapped.</p>
      </Dialog>
    )
  }
  const left = versions.filter(({ status }) => status !== 'destroyed')
  const wraps = left.reduce((sum, version) => sum + version.wraps, 0)
  const destroy = async () => {
    const { status } = await keys.destroy(id, name)
    say(status === 'destroyed' ? 'destroyed' : 'destruction scheduled')
  }
  return (
    <Dialog title={`Destroy ${name}`} act="Destroy" typed={name} isDangerous onClose={onClose} onAct={destroy}>
      <p>
        <strong class="alarm">
          What its {left.length === 1 ? 'one version' : `${left.length} versions`} wrapped will never be opened again
        </strong>
        : {wraps.toLocaleString('en')} data keys, with all records that they encrypt. From now on nothing opens. The
        destruction can be cancelled during the waiting period that the server sets; a server that sets none destroys at
        once. Exported copies of the key still open.
      </p>
      <UsedBy use={use} />
    </Dialog>
  )
}

function whyUnknown(error: Signal<unknown>): string {
  if (!mayTry('audit:read')) return 'this API key may not read the log'
  return error.value !== undefined ? 'the log could not be read' : 'the log is still being read'
}

function UsedBy({ use }: { use: Use | string }) {
  if (typeof use === 'string') return <p class="due">Who used it is not known: {use}.</p>
  if (use.users.size === 0) return <p>Nobody used it in the last 30 days, by the entries that were read.</p>
  return (
    <p class="due">
      Used in the last 30 days by{' '}
      {[...use.users.keys()].map((actor, at) => [at > 0 && ', ', <Named key={actor} id={actor} />])}.
    </p>
  )
}
