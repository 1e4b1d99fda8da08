//! The whole program, tried from outside: the built binary, a real broker, real files.

mod bodies;
mod broker;
mod equal;
mod intake;
mod keep;
mod killed;
mod manual;
mod memories;
mod named;
mod openapi;
mod policy;
mod refused;
mod road;
mod roles;
mod rolling;
mod secrets;
mod steer;
mod tenants;
mod unreadable;
mod users;
mod world;
