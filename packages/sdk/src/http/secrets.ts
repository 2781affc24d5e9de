/** Removes secrets from text of the other end, in each spelling that the text may use. */
import { isWellFormed } from '@eaas/protocol'

/** Shorter secrets are left in: removing them would damage any sentence. */
const MIN_SECRET = 4

/** Returns the spellings of secrets, made at the first call. */
export type Spellings = () => readonly string[]

/**
 * Spells secrets as text may repeat them: unchanged, JSON-escaped and URL-encoded. The longest come first,
 * since one may be the beginning of another.
 */
export function spellingsOf(secrets: readonly string[]): Spellings {
  let all: readonly string[] | undefined
  return () => {
    all ??= secrets.flatMap(spell).sort((a, b) => b.length - a.length)
    return all
  }
}

/** Removes the secrets from the text. */
export function hide(text: string, secrets: Spellings): string {
  return secrets().reduce((shown, secret) => shown.replaceAll(secret, '[removed]'), text)
}

function spell(secret: string): string[] {
  const url = isWellFormed(secret) ? encodeURIComponent(secret) : secret
  const spellings = new Set([secret, JSON.stringify(secret).slice(1, -1), url])
  return [...spellings].filter(({ length }) => length >= MIN_SECRET)
}
