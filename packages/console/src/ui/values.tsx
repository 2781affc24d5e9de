/** Times, ids, names and states, as every page shows them. */
import { visible } from '@eaas/protocol'
import { computed, type Signal, signal } from '@preact/signals'
import type { ComponentChildren, ComponentProps, TargetedEvent } from 'preact'
import { param } from '../location.js'
import { nameOf } from '../session.js'
import { describeAge, writeExact } from '../time.js'

const ID_CHARACTERS = 8
const MINUTE_MS = 60_000

const now = signal(Date.now())
setInterval(() => {
  now.value = Date.now()
}, MINUTE_MS)
const isUtc = computed(() => param('utc') !== '')

export function Button(props: ComponentProps<'button'>) {
  return <button type="button" {...props} />
}

/** A time relative to now, with the exact one on hover. */
export function Time({ at, isExact = false }: { at: string; isExact?: boolean }) {
  const exact = writeExact(at, isUtc.value)
  return (
    <time dateTime={at} title={exact}>
      {isExact ? exact : describeAge(at, Math.max(now.value, Date.now()))}
    </time>
  )
}

/** An id, shortened; a click copies it whole. */
export function Id({ id, label = 'id' }: { id: string; label?: string }) {
  return <CopyButton text={id} shown={id.slice(0, ID_CHARACTERS)} label={`Copy the ${label} ${id}`} />
}

export function CopyButton({ text, shown, label }: { text: string; shown: string; label: string }) {
  const copy = async (event: Event) => {
    event.stopPropagation()
    await navigator.clipboard.writeText(text)
    say('copied')
  }
  return (
    <Button class="id" title={text} aria-label={label} onClick={copy}>
      {shown}
    </Button>
  )
}

/** A key or an API key: its name, or former name, if that is known, otherwise its id. */
export function Named({ id, name = nameOf(id) }: { id: string; name?: string | undefined }) {
  return name === undefined ? <Id id={id} /> : <span title={id}>{visible(name)}</span>
}

const TONES: Readonly<Record<string, string>> = {
  pending_destruction: 'alarm',
  destroyed: 'soft',
  disabled: 'due',
  expired: 'due',
  revoked: 'soft',
  retired: 'soft',
}

export function State({ state }: { state: string }) {
  return <span class={`state ${TONES[state] ?? ''}`}>{state.replaceAll('_', ' ')}</span>
}

type ByTitle<Value> = Readonly<Record<string, Value>>

/** Known facts by titles; drops those that are null or undefined. */
export function Facts({ of, tones = {} }: { of: ByTitle<ComponentChildren>; tones?: ByTitle<string> }) {
  const known = Object.entries(of).filter(([, value]) => value !== null && value !== undefined)
  return (
    <dl class="facts">
      {known.map(([title, value]) => [
        <dt key={title}>{title}</dt>,
        <dd key={`${title}:`} class={tones[title] ?? ''}>
          {value}
        </dd>,
      ])}
    </dl>
  )
}

/** Makes a control's action, which sets a signal to this value. */
export function setTo<Value>(to: Signal<Value>, value: Value): () => void {
  return () => {
    to.value = value
  }
}

export function typeInto(to: Signal<string>): (event: TargetedEvent<HTMLInputElement>) => void {
  return ({ currentTarget }) => {
    to.value = currentTarget.value
  }
}

export function checkInto(to: Signal<boolean>): (event: TargetedEvent<HTMLInputElement>) => void {
  return ({ currentTarget }) => {
    to.value = currentTarget.checked
  }
}

/** The keys on an API key's list. An empty list means no key; without a list, all keys. */
export function describeKeys(keys: readonly string[] | undefined): string {
  if (keys === undefined) return 'all'
  return keys.length === 0 ? 'none' : visible(keys.join(', '))
}

/** The last action, for screen readers to read out. */
export const said = signal('')
let silence: ReturnType<typeof setTimeout> | undefined

export function say(text: string): void {
  said.value = text
  clearTimeout(silence)
  silence = setTimeout(() => {
    said.value = ''
  }, 4_000)
}
