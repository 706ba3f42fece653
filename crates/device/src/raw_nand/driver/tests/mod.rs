mod bad_blocks;
mod basics;
mod interface;
mod liar;
mod oob_otp;
mod random;
mod slc_mode;
mod timing;
