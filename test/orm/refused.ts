/** Expects that a call is refused as input, where an ORM of the contract shows that there is another way. */
export async function expectRefused(call: PromiseLike<unknown>): Promise<void> {
  const code = await call.then(
    () => undefined,
    (error: { code?: unknown }) => error.code,
  )
  if (code !== 'E_INVALID_INPUT') throw new Error(`it is not refused, but ${String(code)}`)
}
