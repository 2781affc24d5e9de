/** The result of an action: the error of a call, or an API key that is shown only once. */
import { visible } from '@eaas/protocol'
import { isEaasError } from '@eaas/sdk'
import type { Signal } from '@preact/signals'
import { Button, say } from './values.js'

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

/** Runs `work`, and shows its error; returns whether it succeeded. */
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

interface NewSecretProps {
  made: { name: string; secret: string }
  onStored(): void
}

export function NewSecret({ made: { name, secret }, onStored }: NewSecretProps) {
  const copy = async () => {
    await navigator.clipboard.writeText(secret)
    say('copied')
  }
  return (
    <section class="secret">
      <h1>{visible(name)}</h1>
      <p>The API key is shown only this once. The server keeps only a digest of it.</p>
      <p>
        <output>{secret}</output>
      </p>
      <p class="actions">
        <Button class="main" onClick={copy}>
          Copy
        </Button>
        <Button onClick={onStored}>I stored it</Button>
      </p>
    </section>
  )
}
