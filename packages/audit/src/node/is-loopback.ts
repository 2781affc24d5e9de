/** Which addresses are on this machine. */

const LOOPBACK = ['127.0.0.1', '[::1]', 'localhost']

/** Whether the server of a URL with this name is on this machine, so that nobody between can read what is sent. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.includes(hostname)
}
