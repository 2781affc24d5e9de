/** Shows why a call failed: what the service says about it, and the id by which its operator finds it. */
import { isEaasError } from '@eaas/sdk'
import type { Signal } from '@preact/signals'

export function Problem({ error }: { error: unknown }) {
  if (error === undefined) return null
  if (!isEaasError(error))
    return (
      <div class="problem" role="alert">
        {error instanceof Error ? error.message : String(error)}
      </div>
    )
  const { hint } = error
  const api = error.code === 'E_API' ? error : undefined
  return (
    <div class="problem" role="alert">
      <strong>{api?.title ?? error.message}</strong> <code>{api?.problem ?? error.code}</code>
      {api && <p>{api.detail}</p>}
      <p>{hint}</p>
      {api?.requestId && (
        <p class="soft">
          Request <code>{api.requestId}</code>
        </p>
      )}
    </div>
  )
}

/** Runs something, and shows its error; returns whether it succeeded. */
export async function attempt(error: Signal<unknown>, work: () => Promise<unknown>): Promise<boolean> {
  error.value = undefined
  try {
    await work()
    return true
  } catch (thrown) {
    error.value = thrown
    return false
  }
}
