/** A dialog that says what will happen and, if that cannot be undone, makes the user type the name; and its fields. */
import { visible } from '@eaas/protocol'
import { type Signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { attempt, Problem } from './outcome.js'
import { Button, typeInto } from './values.js'

interface DialogProps {
  title: string
  children: ComponentChildren
  act: string
  typed?: string // the text to type, as shown, before the button works
  isDangerous?: boolean
  onAct(): Promise<unknown>
  onClose(): void
}

export function Dialog({ title, children, act, typed, isDangerous = false, onAct, onClose }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const text = useSignal('')
  const error = useSignal<unknown>(undefined)
  const isBusy = useSignal(false)
  useEffect(() => dialog.current?.showModal(), [])
  const submit = async (event: Event) => {
    event.preventDefault()
    isBusy.value = true
    if (await attempt(error, onAct)) onClose()
    isBusy.value = false
  }
  return (
    <dialog ref={dialog} aria-label={visible(title)} onClose={onClose}>
      <form onSubmit={submit}>
        <h2>{visible(title)}</h2>
        {children}
        {typed !== undefined && (
          <label>
            Type <code>{visible(typed)}</code> to confirm
            <input autocomplete="off" value={text.value} onInput={typeInto(text)} />
          </label>
        )}
        <Problem error={error.value} />
        <p class="actions">
          <button
            type="submit"
            class={isDangerous ? 'danger' : 'main'}
            disabled={isBusy.value || (typed !== undefined && text.value !== visible(typed))}
          >
            {act}
          </button>
          <Button onClick={onClose}>Cancel</Button>
        </p>
      </form>
    </dialog>
  )
}

interface FieldProps {
  value: Signal<string>
  /** the range of a whole number; by default the field is a name or a reason, and required */
  range?: { min: number; max?: number }
  children: ComponentChildren
}

export function Field({ value, range, children }: FieldProps) {
  const kind = range ? ({ type: 'number', ...range } as const) : { required: true, maxLength: 255 }
  return (
    <label>
      {children}
      <input {...kind} value={value.value} onInput={typeInto(value)} />
    </label>
  )
}

/** The fields that the user changed, since another person may have changed others meanwhile. */
export function findChanges<Fields extends object>(shown: Partial<Fields>, saved: Fields): Partial<Fields> {
  const isChanged = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(shown[name as keyof Fields])
  return Object.fromEntries(Object.entries(saved).filter(isChanged)) as Partial<Fields>
}
