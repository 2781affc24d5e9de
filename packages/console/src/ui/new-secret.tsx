/** An API key that was just made, shown this once. */
import { visible } from '@eaas/protocol'
import { say } from './values.js'

export function NewSecret({
  made: { name, secret },
  onStored,
}: {
  made: { name: string; secret: string }
  onStored(): void
}) {
  return (
    <section class="secret">
      <h1>{visible(name)}</h1>
      <p>The API key is shown only this once. The server keeps only a digest of it.</p>
      <p>
        <output>{secret}</output>
      </p>
      <p class="actions">
        <button
          type="button"
          class="main"
          onClick={async () => {
            await navigator.clipboard.writeText(secret)
            say('copied')
          }}
        >
          Copy
        </button>
        <button type="button" onClick={onStored}>
          I stored it
        </button>
      </p>
    </section>
  )
}
