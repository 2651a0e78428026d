import { expect, test } from 'vitest';
import { Heap } from '../../../src/simulator/rules/store.ts';

const row = (id: string): { id: string } => ({ id });
const order = (heap: Heap<{ id: string }>): string => [...heap.rows()].map(({ id }) => id).join(' ');

test('a row that is changed moves behind the others', () => {
  const heap = new Heap<{ id: string }>();
  for (const id of ['a', 'b', 'c']) heap.add(row(id));
  heap.delete('a');
  heap.add(row('a'));
  expect(order(heap)).toBe('b c a');
});

test('after enough rows have gone new rows stand before older ones', () => {
  const heap = new Heap<{ id: string }>();
  for (let k = 0; k < 60; k++) heap.add(row(`old${k}`));
  heap.add(row('last'));
  for (let k = 0; k < 60; k++) heap.delete(`old${k}`);
  expect([...heap.rows()]).toHaveLength(1);
  for (const id of ['new1', 'new2']) heap.add(row(id));
  expect(order(heap)).toBe('new1 new2 last');
  expect([heap.get('new2'), heap.get('old1')]).toEqual([row('new2'), undefined]);
});
