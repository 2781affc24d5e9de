/** Which source files take part in a call. */
import { Session } from 'node:inspector/promises'

/** Lists the files below a folder, which its path ends with, in which a named function runs meanwhile. */
export async function filesRun(folder: string, work: () => Promise<unknown>): Promise<string[]> {
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true })
    await session.post('Profiler.takePreciseCoverage') // counts begin here
    await work()
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result.flatMap(({ url, functions }) => {
      const [, path] = url.split(`/${folder}/`)
      const ran = functions.some(({ functionName, ranges }) => functionName !== '' && (ranges[0]?.count ?? 0) > 0)
      return path !== undefined && ran ? [path] : []
    })
  } finally {
    session.disconnect()
  }
}
