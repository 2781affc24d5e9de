/** A field of a dialog. */
import type { Signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

export interface FieldProps {
  value: Signal<string>
  /** the range of a whole number; without it, the field is a name or a reason, and required */
  range?: { min: number; max?: number }
  /** the label */
  children: ComponentChildren
}

export function Field({ value, range, children }: FieldProps) {
  const kind = range ? ({ type: 'number', ...range } as const) : { required: true, maxLength: 255 }
  return (
    <label>
      {children}
      <input
        {...kind}
        value={value.value}
        onInput={(event) => {
          value.value = event.currentTarget.value
        }}
      />
    </label>
  )
}
