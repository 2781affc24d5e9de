/** Which addresses are on this machine. */

const LOOPBACK = ['127.0.0.1', '[::1]', 'localhost']

/** Whether the server of a URL with this host name is on this machine, so that no one in between can read requests. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.includes(hostname)
}
