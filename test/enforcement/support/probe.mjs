// Sends one packet for each probe on stdin (JSON) and prints which of them were answered. Nothing listens at the other
// end: an answer is a TCP reset or an ICMP port unreachable, both of which a program sees as ECONNREFUSED.
import { createSocket } from 'node:dgram';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

const patienceMs = 1500;

function probeTcp({ source, destination, port }) {
  return new Promise((resolve) => {
    const socket = connect({ host: destination, port, localAddress: source });
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(false);
    }, patienceMs);
    socket.on('error', (error) => {
      clearTimeout(timer);
      resolve(error.code === 'ECONNREFUSED' ? true : error.code);
    });
  });
}

function probeUdp({ source, destination, port }) {
  return new Promise((resolve) => {
    const socket = createSocket(source.includes(':') ? 'udp6' : 'udp4');
    let timer;
    let again;
    const end = (result) => {
      clearTimeout(timer);
      clearInterval(again);
      socket.close();
      resolve(result);
    };
    timer = setTimeout(() => end(false), patienceMs);
    socket.on('error', (error) => end(error.code === 'ECONNREFUSED' ? true : error.code));
    socket.bind(0, source, () =>
      socket.connect(port, destination, () => {
        socket.send('probe', () => {});
        again = setInterval(() => socket.send('probe', () => {}), patienceMs / 3);
      }),
    );
  });
}

const probes = JSON.parse(await text(process.stdin));
const results = await Promise.all(
  probes.map((probe) => (probe.protocol === 'tcp' ? probeTcp(probe) : probeUdp(probe))),
);
process.stdout.write(JSON.stringify(results));
