// Types of peers.mjs, for those who call it from TypeScript.
interface Peer {
  encrypt(value: string): Promise<string>
  decrypt(sealed: string): Promise<string>
}
export function awsPeer(): Peer
