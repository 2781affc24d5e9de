/** An API key that was just made, shown this once. */
import { visible } from '@eaas/protocol'
import { Button, say } from './values.js'

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
        <button type="button" class="main" onClick={copy}>
          Copy
        </button>
        <Button onClick={onStored}>I stored it</Button>
      </p>
    </section>
  )
}
