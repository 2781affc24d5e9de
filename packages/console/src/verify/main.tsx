/** The page on which an auditor drops an export. Everything is in this one file, and no data leaves it. */
import { parseRfc3339, visible } from '@eaas/protocol'
import { computed, signal } from '@preact/signals'
import { render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { save } from '../save.js'
import { findOtherKey, findPeriod, type Given, readNames, recognize } from './files.js'
import type { Message, ProofTask, Task } from './worker.js'

const given = signal<readonly Given[]>([])
const publicKey = signal('')
const otherKey = computed(() => findOtherKey(given.value, publicKey.value) ?? '')
const from = signal('')
const to = signal('')
const error = signal('')
const progress = signal<{ entries: number; part: number } | undefined>(undefined)
const made = signal('')
/** the last saved proof file */
const saved = signal('')
/** the entries to prove, which a link from the log may name */
const wanted = signal(/^#entry=(\d{1,15})$/.exec(location.hash)?.[1] ?? '')

/** A worker from a text in this file, since a page opened from disk has no origin from which to load one. */
const worker = new Worker(URL.createObjectURL(new Blob([WORKER_SCRIPT], { type: 'text/javascript' })))
worker.onmessage = ({ data }: MessageEvent<Message>) => {
  if ('entries' in data) progress.value = data
  else {
    progress.value = undefined
    if ('error' in data) error.value = data.error
    else if ('proof' in data) {
      const name = `entries-${idsOf(wanted.value).join('-')}`.slice(0, 94)
      saved.value = `${name}.proof`
      save(saved.value, data.proof, 'text/plain')
    } else made.value = data.page
  }
}
worker.onerror = ({ message }) => {
  progress.value = undefined
  error.value = `the verification could not run: ${message || 'this browser starts no worker here'}`
}

async function take(files: readonly File[]): Promise<void> {
  error.value = ''
  made.value = ''
  const known = await Promise.all(files.map(recognize))
  const others = given.value.filter(({ file }) => !files.some(({ name }) => name === file.name))
  const all = [...others, ...known].sort((a, b) => a.after_id - b.after_id)
  // Never replaces text that the auditor entered.
  publicKey.value ||= known.find(({ key }) => key !== undefined)?.key ?? ''
  list(all)
}

/** Lists files. The period becomes that of their exports, unless the auditor entered another one. */
function list(files: readonly Given[]): void {
  const [before, now] = [findPeriod(given.value), findPeriod(files)]
  for (const [at, field] of [from, to].entries()) {
    if (['', before[at]].includes(field.value)) field.value = now[at] ?? ''
  }
  given.value = files
}

function filesOf(kind: Given['kind']): File[] {
  return given.value.filter((one) => one.kind === kind).map(({ file }) => file)
}

async function verify(event: Event): Promise<void> {
  event.preventDefault()
  made.value = ''
  error.value = ''
  const exports = filesOf('export')
  const kept = filesOf('checkpoints')
  const key = publicKey.value.trim() || undefined
  const [begin = '', end = ''] = [from, to].map(({ value }) => parseRfc3339(value.trim(), 'down'))
  if (exports.length === 0) error.value = 'Drop an export first: what eaas audit export wrote.'
  else if (kept.length > 0 && !key) error.value = 'Checkpoints need the public key of the operator.'
  else if (begin === '' || begin >= end)
    error.value = 'The period must be two times such as 2026-04-01T00:00:00Z, the later one second.'
  if (error.value !== '' || otherKey.value !== '') return
  const names = Object.assign({}, ...(await Promise.all(filesOf('names').map(readNames))))
  progress.value = { entries: 0, part: 0 }
  const task: Task = { exports, kept, publicKey: key, names, from: begin, to: end }
  worker.postMessage(task)
}

function prove(): void {
  error.value = ''
  saved.value = ''
  const ids = idsOf(wanted.value)
  const exports = given.value.filter(({ kind }) => kind === 'export')
  if (exports.length === 0) error.value = 'Drop an export first: what eaas audit export wrote.'
  else if (ids.length === 0 || !ids.every((id) => id > 0))
    error.value = 'Entries to prove must be their numbers, such as 17 or 17 18.'
  if (error.value !== '' || otherKey.value !== '') return
  progress.value = { entries: 0, part: 0 }
  const task: ProofTask = {
    exports: exports.map(({ file }) => file),
    starts: exports.map(({ after_id }) => after_id),
    publicKey: publicKey.value.trim() || undefined,
    ids,
  }
  worker.postMessage(task)
}

function idsOf(text: string): number[] {
  const ids = text.split(/[\s,]+/).filter(Boolean)
  return [...new Set(ids.map((id) => (/^\d{1,15}$/.test(id) ? Number(id) : 0)))]
}

function Page() {
  useEffect(() => {
    const stop = (event: DragEvent) => event.preventDefault()
    const drop = (event: DragEvent) => {
      event.preventDefault()
      void take([...(event.dataTransfer?.files ?? [])])
    }
    addEventListener('dragover', stop)
    addEventListener('drop', drop)
  }, [])
  const shown = error.value || otherKey.value
  return (
    <>
      <form class="verifier" onSubmit={verify}>
        <h1>Verify an audit log</h1>
        <p>
          Drop an export here, with what you kept of it: checkpoints, the operator's public key, a file of names.
          Nothing leaves this page: the browser lets it connect to nothing.
        </p>
        <p>
          <label class="drop">
            Choose files
            <input
              type="file"
              multiple
              onClick={({ currentTarget }) => {
                currentTarget.value = '' // otherwise a browser reports no change if the same file is chosen again
              }}
              onChange={(event) => void take([...(event.currentTarget.files ?? [])])}
            />
          </label>
        </p>
        {given.value.length > 0 && (
          <ul>
            {given.value.map(({ file, kind }) => (
              <li key={file.name}>
                {visible(file.name)}: {kind}, {file.size.toLocaleString('en')} bytes{' '}
                <button
                  type="button"
                  aria-label={`Remove ${visible(file.name)}`}
                  onClick={() => list(given.value.filter((one) => one.file !== file))}
                >
                  Remove
                </button>
              </li>
            ))}
          </ul>
        )}
        <Field name={publicKey} label="Public key, which the operator gave you by another channel than the export" />
        <Field name={from} label="Period from, UTC" />
        <Field name={to} label="until before" />
        <p class="actions">
          <button type="submit" disabled={progress.value !== undefined}>
            Verify
          </button>
          {made.value !== '' && (
            <>
              <button type="button" onClick={() => save('report.html', made.value, 'text/html')}>
                Save the report
              </button>
              <button type="button" onClick={() => print()}>
                Print
              </button>
            </>
          )}
        </p>
        <Field name={wanted} label="Entries to prove, such as 17 or 17 18" />
        <p class="actions">
          <button type="button" disabled={progress.value !== undefined} onClick={prove}>
            Save a proof
          </button>
          <span class="soft">
            The file proves these entries by what the server signed, and has nothing else of the log. To check it:{' '}
            <code>npx @eaas/audit verify-proof FILE --public-key KEY</code>
          </span>
        </p>
        <p role="status">
          {progress.value
            ? `Entries: ${progress.value.entries.toLocaleString('en')}, ${Math.round(100 * progress.value.part)} %`
            : saved.value !== '' && `Saved ${saved.value}.`}
        </p>
        {shown !== '' && (
          <p class="fault" role="alert">
            {shown}
          </p>
        )}
        <p class="soft">
          This page is one file: save it (Ctrl+S) and it opens from disk, without a server. Version {VERSION}. Witnesses
          are compared by the command <code>eaas-audit verify --witness</code>.
        </p>
      </form>
      {made.value !== '' && <Report page={made.value} />}
    </>
  )
}

function Field({ name, label }: { name: typeof from; label: string }) {
  return (
    <label>
      {label}
      <input
        value={name.value}
        spellcheck={false}
        onInput={(event) => {
          name.value = event.currentTarget.value
        }}
      />
    </label>
  )
}

/** The report's document without its head: it has this page's style, and no script. */
function Report({ page }: { page: string }) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Its style element would be refused, even in a document that is not shown.
    const { body } = new DOMParser().parseFromString(page.slice(page.indexOf('<body>')), 'text/html')
    place.current?.replaceChildren(...body.childNodes)
    place.current?.scrollIntoView()
  }, [page])
  return <div ref={place} class="report" />
}

const root = document.querySelector('#app')
if (root) render(<Page />, root)
