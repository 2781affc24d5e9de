// Runs commands one after another in this process, for test/support/service/command-host.ts. Each runs its built
// program from the first line, with its own command line and environment; only imported modules stay loaded.
/** Thrown by process.exit, so that the command does not continue. */
const EXITED = Symbol('exited')

// Each command adds its own.
for (const emitter of [process, process.stdout, process.stderr]) emitter.setMaxListeners(0)

let runs = 0

/** Returns the command's exit code and output. */
async function run({ program, args, env }) {
  const written = { stdout: [], stderr: [] }
  let hasExited = false
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  process.argv = [process.execPath, program, ...args]
  process.exitCode = undefined
  process.exit = (code) => {
    if (!hasExited && code !== undefined) process.exitCode = code
    hasExited = true
    throw EXITED
  }
  for (const name of ['stdout', 'stderr']) {
    process[name].write = (chunk, encoding, done = encoding) => {
      if (!hasExited) written[name].push(Buffer.from(chunk))
      if (typeof done === 'function') done()
      return true
    }
  }
  try {
    await import(`${program}?${++runs}`)
  } catch (error) {
    if (error !== EXITED) throw error
  }
  const textOf = (name) => Buffer.concat(written[name]).toString()
  return { code: process.exitCode ?? 0, stdout: textOf('stdout'), stderr: textOf('stderr') }
}

process.on('uncaughtException', (error) => {
  if (error !== EXITED) throw error
})
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL')) // process.exit is that of a command
process.on('message', async (job) => {
  process.send(await run(job))
})
