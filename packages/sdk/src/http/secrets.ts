/** Removes secrets from text that came from elsewhere, in each spelling that the text may use. */
import { isWellFormed } from '@eaas/protocol'

/** Removing shorter ones would leave holes in any sentence. */
const MIN_SECRET = 4

/** The spellings of secrets, made when they are first needed. */
export type Spellings = () => readonly string[]

/**
 * Spells secrets as text may repeat them: as they are, as JSON escapes them, and as URLs do. The longest come first, since one
 * may be the beginning of another.
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
