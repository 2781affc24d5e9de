// What `rewrap` and `reseal` made of rows.

/** Collects the items of all batches. An assertion inside a loop over the batches would hold if there are none. */
export async function itemsOf<T>(batches: AsyncIterable<{ items: T[] }>): Promise<T[]> {
  const all: T[] = []
  for await (const { items } of batches) all.push(...items)
  return all
}
