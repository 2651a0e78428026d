// Sends a UDP packet each millisecond until stdin ends, and prints the times (ms since 1970) at which answers came.
// Nothing listens at the other end: an answer is an ICMP port unreachable, which a program sees as ECONNREFUSED.
import { createSocket } from 'node:dgram';

const [source, destination, port] = process.argv.slice(2);
const answers = [];
const answered = () => answers.push(performance.timeOrigin + performance.now());
const socket = createSocket('udp4');
socket.on('error', answered);
socket.bind(0, source, () =>
  socket.connect(Number(port), destination, () => {
    const timer = setInterval(() => socket.send('flood', (error) => error && answered()), 1);
    process.stdout.write('sending\n');
    process.stdin.resume();
    process.stdin.on('end', () => {
      clearInterval(timer);
      socket.close();
      process.stdout.write(`${JSON.stringify(answers)}\n`);
    });
  }),
);
