/** Expects that a call is refused as input, where an ORM of the contract shows that there is another way. */
export async function expectRefused(call: PromiseLike<unknown>, hint = /./): Promise<void> {
  const error = await call.then(
    () => undefined,
    (error: { code?: unknown; hint?: unknown }) => error,
  )
  if (error?.code !== 'E_INVALID_INPUT') throw new Error(`it is not refused, but ${String(error?.code)}`)
  if (!hint.test(String(error.hint))) throw new Error(`it does not say what would work, but ${String(error.hint)}`)
}

/** What is said of a search that finds more rows than match, in place of which others work. */
export const NO_OR = /In place of `or`, read by each condition and join the rows/
export const NO_COUNT = /count (the rows|them)/i
