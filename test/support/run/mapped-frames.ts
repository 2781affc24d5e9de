// Makes vite find the source of each stack frame only once. By default it does so again for each error, for up to a
// hundred frames: a quarter of the CPU time of tests that provoke thousands of errors.
const shared = globalThis as { eaasMapsFramesOnce?: true }

/** What a frame begins with in a stack trace. */
const AT = '\n    at '

// A worker loads this for each of its files.
if (!shared.eaasMapsFramesOnce && Error.prepareStackTrace) mapOnce(Error.prepareStackTrace)
shared.eaasMapsFramesOnce = true

function mapOnce(map: NonNullable<typeof Error.prepareStackTrace>): void {
  const known = new Map<string, string>()
  const mapped = (frame: NodeJS.CallSite) => {
    const text = frame.toString()
    const line = known.get(text) ?? String(map(new Error(), [frame])).slice(`Error: ${AT}`.length)
    known.set(text, line)
    return AT + line
  }
  Error.prepareStackTrace = (error, frames) =>
    `${error.name || 'Error'}: ${error.message || ''}${frames.map(mapped).join('')}`
}
