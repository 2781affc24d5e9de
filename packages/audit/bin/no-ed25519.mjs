// Takes the place of @noble/curves on Node, which has Ed25519 itself (src/crypto.ts).
export const ed25519 = undefined
