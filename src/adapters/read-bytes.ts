/** All that a stream holds; null: it is more than `largest` bytes. */
export async function readBytes(stream: AsyncIterable<Uint8Array>, largest: number): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > largest) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
