/** A dialog that says what will happen and, for what cannot be undone, requires typing the name. */
import { visible } from '@eaas/protocol'
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { attempt, Problem } from './problem.js'

export interface DialogProps {
  title: string
  children: ComponentChildren
  /** what the button says */
  act: string
  /** what has to be typed, as it is shown, before the button works */
  typed?: string
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
            <input
              autocomplete="off"
              value={text.value}
              onInput={(event) => {
                text.value = event.currentTarget.value
              }}
            />
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
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </p>
      </form>
    </dialog>
  )
}
